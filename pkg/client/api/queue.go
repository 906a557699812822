package api

import "time"

// ListedQueue is a queue in a list.
type ListedQueue struct {
	ID         ID           `json:"id"`
	Name       Name         `json:"name"`
	Namespace  Name         `json:"namespace"`
	Task       Name         `json:"task"`
	CreatedAt  time.Time    `json:"createdAt"`
	Paused     bool         `json:"paused"` // Pops return no messages of the queue.
	Partitions int64        `json:"partitions"`
	Messages   ListedCounts `json:"messages"`
}

// ListedCounts counts the messages of a queue in a list.
type ListedCounts struct {
	Total      int64 `json:"total"`      // The stored messages.
	Pending    int64 `json:"pending"`    // Messages that a group has not consumed.
	Processing int64 `json:"processing"` // Messages that a lease covers.
	DeadLetter int64 `json:"deadLetter"` // The dead letters.
}

// Queues is the answer to GET /api/v1/resources/queues.
type Queues struct {
	Queues []ListedQueue `json:"queues"`
}

// QueueStatuses is the answer to GET /api/v1/status/queues.
type QueueStatuses struct {
	Queues     []ListedQueue `json:"queues"`
	Pagination OffsetPage    `json:"pagination"`
}

// QueuePage is the answer to GET /api/v1/queues.
type QueuePage struct {
	CountedAt  time.Time      `json:"countedAt"` // Everything that was committed before this instant is counted.
	Queues     []CountedQueue `json:"queues"`
	Pagination Page           `json:"pagination"`
}

// CountedQueue is a queue with its totals.
type CountedQueue struct {
	ID            ID           `json:"id"`
	Name          Name         `json:"name"`
	Namespace     Name         `json:"namespace"`
	Task          Name         `json:"task"`
	CreatedAt     time.Time    `json:"createdAt"`
	Paused        bool         `json:"paused"` // Pops return no messages of the queue.
	Groups        int64        `json:"groups"`
	Partitions    int64        `json:"partitions"`
	Messages      ListedCounts `json:"messages"`      // Its `deadLetter` counts the messages that are dead letters of at least one group.
	DeadLetters   int64        `json:"deadLetters"`   // The dead letters of all groups. A message can be a dead letter of several groups.
	Failing       int64        `json:"failing"`       // Partitions whose first unfinished message has failed, once for each group.
	OldestSeconds *int64       `json:"oldestSeconds"` // The age of the oldest message that a group has not finished. null if there is none.
	Late          bool         `json:"late"`          // A group of the queue is late: see `late` of a group.
	// Failed acknowledgments in the last hour. Present with `sort=failed`. Queues that are counted together have 0.
	FailedLastHour *int64 `json:"failedLastHour,omitzero"`
}

// TagTotals is the answer to GET /api/v1/totals/namespaces and to GET /api/v1/totals/tasks.
type TagTotals struct {
	CountedAt  time.Time    `json:"countedAt"` // Everything that was committed before this instant is counted.
	Tags       []CountedTag `json:"tags"`
	Pagination Page         `json:"pagination"`
}

// CountedTag is a namespace or a task, with sums over its queues that the caller may see.
type CountedTag struct {
	Name               Name         `json:"name"`
	Queues             int64        `json:"queues"`
	Groups             int64        `json:"groups"`
	Partitions         int64        `json:"partitions"`
	Messages           ListedCounts `json:"messages"`           // Its `deadLetter` counts the messages that are dead letters of at least one group.
	DeadLetters        int64        `json:"deadLetters"`        // The dead letters of all groups. A message can be a dead letter of several groups.
	Late               bool         `json:"late"`               // A group of a queue is late: see `late` of a group.
	Failing            int64        `json:"failing"`            // Partitions whose first unfinished message has failed, once for each group.
	OldestSeconds      *int64       `json:"oldestSeconds"`      // The age of the oldest message that a group has not finished. null if there is none.
	PushedPerSecond    float64      `json:"pushedPerSecond"`    // The rate in the last finished minute.
	DeliveredPerSecond float64      `json:"deliveredPerSecond"` // The rate in the last finished minute.
	FailedLastHour     int64        `json:"failedLastHour"`     // Failed acknowledgments in the last hour.
}

// Totals is the answer to GET /api/v1/totals: sums over all queues that the caller may see.
type Totals struct {
	CountedAt     time.Time `json:"countedAt"` // Everything that was committed before this instant is counted.
	Queues        int64     `json:"queues"`
	Groups        int64     `json:"groups"`
	Partitions    int64     `json:"partitions"`
	Messages      Counts    `json:"messages"`      // Its `deadLetter` counts the messages that are dead letters of at least one group.
	DeadLetters   int64     `json:"deadLetters"`   // The dead letters of all groups. A message can be a dead letter of several groups.
	Failing       int64     `json:"failing"`       // Partitions whose first unfinished message has failed, once for each group.
	OldestSeconds *int64    `json:"oldestSeconds"` // The age of the oldest message that a group has not finished. null if there is none.
}

// Tags is the answer to GET /api/v1/tags.
type Tags struct {
	Tags       []TagPair `json:"tags"`
	Pagination TagPage   `json:"pagination"`
}

// TagPair is a namespace and a task of at least one queue.
type TagPair struct {
	Namespace Name `json:"namespace"`
	Task      Name `json:"task"`
}

// TagPage describes a page of the list of tags.
type TagPage struct {
	Limit int64      `json:"limit"`
	Next  *TagCursor `json:"next"` // The parameters of the next page. null on the last page.
}

// TagCursor has the parameters of the next page of tags.
type TagCursor struct {
	AfterNamespace Name `json:"afterNamespace"`
	AfterTask      Name `json:"afterTask"`
}

// Problem is a state that an operator should examine.
type Problem struct {
	// `held_snapshot`: a transaction has been open for 5 minutes and holds a snapshot, a transaction id or locks. Only the first
	// page has this kind, and only tokens without grants see it. `stuck_head`: the first message of a partition was delivered 3
	// times, or waits at least a minute for a retry. `lag`: the group is late. Its first message is due or leased, and is older
	// than `problems.late_after`, or than half of `maxWaitTimeSeconds` of the queue. `dead_letters`: the group has dead letters. `paused_queue`, `paused_group` and `paused_partition`: the queue,
	// group or partition is paused. `breaker_open`: the circuit breaker of the group is not closed. `schedule_late`: a schedule has been due for 10 seconds, and no instance has stored its message.
	// `schedule_error`: a schedule has no instants until it is changed. Only the first page has problems of schedules.
	Kind          string  `json:"kind"`
	Urgent        bool    `json:"urgent"` // The age is at least an hour.
	Queue         *string `json:"queue"`
	ConsumerGroup *string `json:"consumerGroup"`
	Partition     *string `json:"partition"` // null except for `stuck_head` and `paused_partition`.
	// The age of the oldest examined message, or of the transaction. For `schedule_late`, the time since the schedule is due. null if it is unknown or less than a second.
	AgeSeconds *int64 `json:"ageSeconds"`
	// For `dead_letters`, the dead letters of the group. Otherwise the unfinished messages. `stuck_head` and `paused_partition`
	// count them in the partition, `lag`, `breaker_open` and `paused_group` in the group, and `paused_queue` in the queue.
	Messages       int64   `json:"messages"`
	Deliveries     int64   `json:"deliveries"`     // For `stuck_head`, the deliveries of the first message.
	Failures       int64   `json:"failures"`       // For `stuck_head`, the failed acknowledgments of the first message.
	RetryInSeconds *int64  `json:"retryInSeconds"` // For `stuck_head`, the time until the retry of the first message. null if the message does not wait.
	Session        *string `json:"session"`        // For `held_snapshot`, the session or prepared transaction.
	Schedule       *string `json:"schedule"`       // For `schedule_late` and `schedule_error`, the name of the schedule.
	Error          *string `json:"error"`          // For `schedule_error`, the reason.
}

// Problems is the answer to GET /api/v1/problems.
type Problems struct {
	// The instant at which the messages of groups and queues were counted. null if there is no such problem.
	CountedAt *time.Time `json:"countedAt"`
	Problems  []Problem  `json:"problems"`
	// The number of problems that the request found. The answer lists the most urgent problems.
	Found      int64 `json:"found"`
	Examined   int64 `json:"examined"` // The number of paused queues and groups that the request examined.
	Pagination Page  `json:"pagination"`
}

// QueueDetail is the answer to GET /api/v1/resources/queues/{queue}.
type QueueDetail struct {
	ID         ID            `json:"id"`
	Name       Name          `json:"name"`
	Namespace  Name          `json:"namespace"`
	Task       Name          `json:"task"`
	CreatedAt  time.Time     `json:"createdAt"`
	Paused     bool          `json:"paused"` // Pops return no messages of the queue.
	Partitions []Partition   `json:"partitions"`
	Totals     Counts        `json:"totals"`
	Swept      Swept         `json:"swept"` // Messages that sweeps removed from the queue since its creation.
	Pagination PartitionPage `json:"pagination"`
}

// Partition is a partition with the counts of its messages.
type Partition struct {
	ID            ID         `json:"id"`
	Name          Name       `json:"name"`
	CreatedAt     time.Time  `json:"createdAt"`
	Paused        bool       `json:"paused"`          // Pops return no messages of the partition.
	Tenant        Name       `json:"tenant,omitzero"` // The tenant of the partition. Absent if it has none.
	Stats         Counts     `json:"stats"`
	OldestMessage *time.Time `json:"oldestMessage"`
	NewestMessage *time.Time `json:"newestMessage"`
}

// QueueStatus is the answer to GET /api/v1/status/queues/{queue}.
type QueueStatus struct {
	Queue      QueueSettings     `json:"queue"`
	Partitions []PartitionStatus `json:"partitions"`
	Totals     QueueTotals       `json:"totals"` // The counts are present twice: as members of `totals`, and in `totals.messages`.
	Swept      Swept             `json:"swept"`  // Messages that sweeps removed from the queue since its creation.
	Pagination PartitionPage     `json:"pagination"`
}

// QueueSettings is a queue with its options.
type QueueSettings struct {
	ID        ID           `json:"id"`
	Name      Name         `json:"name"`
	Namespace Name         `json:"namespace"`
	Task      Name         `json:"task"`
	Priority  int          `json:"priority"`
	CreatedAt time.Time    `json:"createdAt"`
	Paused    bool         `json:"paused"` // Pops return no messages of the queue.
	Config    QueueConfig  `json:"config"`
	Options   QueueOptions `json:"options"` // All options, with the names that `POST /api/v1/configure` uses.
}

// QueueConfig has some options, under the names of Queen MQ.
type QueueConfig struct {
	LeaseTime       int64 `json:"leaseTime"`
	RetryLimit      int64 `json:"retryLimit"`
	RetryDelay      int64 `json:"retryDelay"`
	TTL             int64 `json:"ttl"`
	MaxQueueSize    int64 `json:"maxQueueSize"` // The option `maxSize`.
	DeadLetterQueue bool  `json:"deadLetterQueue"`
}

// PartitionStatus is a partition with its counts and its progress.
type PartitionStatus struct {
	ID        ID        `json:"id"`
	Name      Name      `json:"name"`
	CreatedAt time.Time `json:"createdAt"`
	Paused    bool      `json:"paused"`          // Pops return no messages of the partition.
	Tenant    Name      `json:"tenant,omitzero"` // The tenant of the partition. Absent if it has none.
	Messages  Counts    `json:"messages"`
	Stats     Counts    `json:"stats"` // The same counts as `messages`.
	// Messages that the groups consumed, and expired messages that pops skipped, as sums over all groups.
	Cursor        PartitionCursor `json:"cursor"`
	LastActivity  *time.Time      `json:"lastActivity"`
	OldestMessage *time.Time      `json:"oldestMessage"`
	NewestMessage *time.Time      `json:"newestMessage"`
}

// PartitionCursor is the progress of all groups together in a partition.
type PartitionCursor struct {
	TotalConsumed   int64 `json:"totalConsumed"`
	BatchesConsumed int64 `json:"batchesConsumed"` // Always 0. Belfry does not count batches.
	TotalExpired    int64 `json:"totalExpired"`
}

// QueueTotals counts the messages of a queue.
type QueueTotals struct {
	Messages Counts `json:"messages"`
	Counts
}

// Swept counts the messages that sweeps removed from a queue since it was created.
type Swept struct {
	Retention int64 `json:"retention"` // Messages deleted by `retentionSeconds`.
	Completed int64 `json:"completed"` // Messages deleted by `completedRetentionSeconds`.
	Evicted   int64 `json:"evicted"`   // Messages deleted by `maxWaitTimeSeconds`.
	Unread    int64 `json:"unread"`    // Deleted messages that a group had not consumed, or whose queue had no group.
	// Messages that sweeps skipped because they had expired (`expireAfterSeconds`), counted once for each group. `totalExpired`
	// counts the expired messages that pops skipped.
	Expired int64 `json:"expired"`
	// Messages that were too old, but that a sweep could not delete because of a lease or a dead letter of another group. The
	// sweep moved each group that had not consumed the message past it, and counted the message once for each of these
	// groups. If the message is deleted later, it may also count in `unread`.
	Skipped int64 `json:"skipped"`
}

// Counts counts messages by state.
type Counts struct {
	Total int64 `json:"total"`
	// Messages that a group has not consumed yet, including redriven messages. If a group started or sought back after single
	// messages were deleted, the count includes the deleted messages until the group has passed their positions.
	Pending    int64 `json:"pending"`
	Processing int64 `json:"processing"`
	Completed  int64 `json:"completed"`
	Failed     int64 `json:"failed"` // Always 0. A failed message is pending again or a dead letter.
	DeadLetter int64 `json:"deadLetter"`
}

// PartitionPage describes a page of the partitions of a queue.
type PartitionPage struct {
	Limit int64   `json:"limit"`
	Next  *string `json:"next"` // The cursor of the next page. null on the last page.
	// Present with `countLimit`. true means that the totals do not include all partitions.
	TotalsAreLowerBounds *bool `json:"totalsAreLowerBounds,omitzero"`
}

// Spread describes a set of values, each figure rounded to a whole number.
type Spread struct {
	Avg    int64 `json:"avg"`
	Median int64 `json:"median"`
	Min    int64 `json:"min"`
	Max    int64 `json:"max"`
}

// Overview is the answer to GET /api/v1/resources/overview.
type Overview struct {
	Queues     int64       `json:"queues"`
	Partitions int64       `json:"partitions"`
	Namespaces int64       `json:"namespaces"`
	Tasks      int64       `json:"tasks"`
	Messages   Counts      `json:"messages"`
	Lag        Lag         `json:"lag"`
	Throughput *Throughput `json:"throughput"`
	Timestamp  time.Time   `json:"timestamp"`
	StatsAge   int64       `json:"statsAge"` // Always 0, because the counts are live.
}

// Lag describes the unconsumed messages of groups.
type Lag struct {
	Time   Spread `json:"time"`   // The age of unconsumed messages, in seconds.
	Offset Spread `json:"offset"` // The number of unconsumed messages.
}

// Throughput has the messages per second at this instance in the last minute.
type Throughput struct {
	IngestedPerSecond  float64 `json:"ingestedPerSecond"`
	ProcessedPerSecond float64 `json:"processedPerSecond"`
}

// Namespaces is the answer to GET /api/v1/resources/namespaces.
type Namespaces struct {
	Namespaces []Namespace `json:"namespaces"`
}

// Namespace is a namespace with the sums over its queues.
type Namespace struct {
	Namespace  Name      `json:"namespace"`
	Queues     int64     `json:"queues"`
	Partitions int64     `json:"partitions"`
	Messages   TagCounts `json:"messages"`
}

// TagCounts counts messages of several queues.
type TagCounts struct {
	Total   int64 `json:"total"`
	Pending int64 `json:"pending"`
}

// Tasks is the answer to GET /api/v1/resources/tasks.
type Tasks struct {
	Tasks []Task `json:"tasks"`
}

// Task is a task with the sums over its queues.
type Task struct {
	Task       Name      `json:"task"`
	Queues     int64     `json:"queues"`
	Partitions int64     `json:"partitions"`
	Messages   TagCounts `json:"messages"`
}

// Sweeps is the answer to GET /api/v1/status/sweeps.
type Sweeps struct {
	Sweeps []Sweep `json:"sweeps"`
}

// Sweep is the state of one kind of sweep, over all instances.
type Sweep struct {
	Job     string    `json:"job"`
	Running bool      `json:"running"` // An instance is running the sweep.
	NextAt  time.Time `json:"nextAt"`  // The instant of the next run.
}
