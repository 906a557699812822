package api

import "time"

// ListedQueue is a queue of a list.
type ListedQueue struct {
	ID         ID           `json:"id"`
	Name       Name         `json:"name"`
	Namespace  Name         `json:"namespace"`
	Task       Name         `json:"task"`
	CreatedAt  time.Time    `json:"createdAt"`
	Paused     bool         `json:"paused"` // Its pops return nothing.
	Partitions int64        `json:"partitions"`
	Messages   ListedCounts `json:"messages"`
}

// ListedCounts counts the messages of a queue of a list.
type ListedCounts struct {
	Total      int64 `json:"total"`      // The stored messages.
	Pending    int64 `json:"pending"`    // A group waits for them.
	Processing int64 `json:"processing"` // A lease covers them.
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
	Queues     []CountedQueue `json:"queues"`
	Pagination Page           `json:"pagination"`
}

// CountedQueue is a queue with the figures that are read in bounded work.
type CountedQueue struct {
	ID         ID           `json:"id"`
	Name       Name         `json:"name"`
	Namespace  Name         `json:"namespace"`
	Task       Name         `json:"task"`
	CreatedAt  time.Time    `json:"createdAt"`
	Paused     bool         `json:"paused"`     // Its pops return nothing.
	Groups     int64        `json:"groups"`     // The number of groups, at most 1000.
	Partitions int64        `json:"partitions"` // The number of counted partitions.
	Messages   ListedCounts `json:"messages"`   // At most 1000 dead letters are counted.
	// There are more partitions or groups than were counted, so `partitions` and `messages` are lower bounds.
	CountsAreLowerBounds bool `json:"countsAreLowerBounds"`
	// The age of the oldest message that a group is not done with. Null: there is none. With `countsAreLowerBounds` it is that
	// of the counted partitions, and of the 10 partitions of each group that are due longest.
	OldestSeconds *int64 `json:"oldestSeconds"`
	// A group is late: its pops can receive, or have in delivery, a message that is as old as `problems.late_after`, or half of
	// `maxWaitTimeSeconds` of the queue. False for a paused queue.
	Late bool `json:"late"`
}

// Tags is the answer to GET /api/v1/tags.
type Tags struct {
	Tags       []TagPair `json:"tags"`
	Pagination TagPage   `json:"pagination"`
}

// TagPair is a namespace and a task that a queue has.
type TagPair struct {
	Namespace Name `json:"namespace"`
	Task      Name `json:"task"`
}

// TagPage is the part of the list of tags that an answer has.
type TagPage struct {
	Limit int64      `json:"limit"`
	Next  *TagCursor `json:"next"` // The parameters of the next page. Null: this is the last page.
}

// TagCursor has the parameters of the next page of tags.
type TagCursor struct {
	AfterNamespace Name `json:"afterNamespace"`
	AfterTask      Name `json:"afterTask"`
}

// Problem is something that an operator should look at.
type Problem struct {
	// `held_snapshot`: a transaction is open for 5 minutes and holds a snapshot, a transaction id or locks. It is shown to
	// tokens without grants, and on the first page only. `stuck_head`: the first message of a partition was delivered 3 times,
	// or waits at least a minute for a retry. `lag`: the group is late. Its first message is due, or in delivery, and as old as
	// `problems.late_after`, or half of `maxWaitTimeSeconds` of the queue.
	// `dead_letters`: the group has dead letters. `paused_queue`, `paused_group` and `paused_partition`: no pop returns its
	// messages.
	Kind          string  `json:"kind"`
	Urgent        bool    `json:"urgent"` // The age is at least an hour.
	Queue         *string `json:"queue"`
	ConsumerGroup *string `json:"consumerGroup"`
	Partition     *string `json:"partition"` // Of `stuck_head` and `paused_partition`.
	// The age of the oldest examined message, or of the transaction. Null: not known, or less than a second.
	AgeSeconds *int64 `json:"ageSeconds"`
	// The unfinished messages: of `lag` in the 20 partitions that are due longest, of `stuck_head` and `paused_partition` in
	// the partition, of other pauses in the first 100 partitions. Of `dead_letters` the dead letters, at most 1000.
	Messages              int64   `json:"messages"`
	MessagesAreLowerBound bool    `json:"messagesAreLowerBound"` // There may be more messages.
	Deliveries            int64   `json:"deliveries"`            // The deliveries of the first message of `stuck_head`.
	Failures              int64   `json:"failures"`              // Its failed acknowledgments.
	RetryInSeconds        *int64  `json:"retryInSeconds"`        // How long it waits for a retry. Null: it does not wait.
	Session               *string `json:"session"`               // The session or prepared transaction of `held_snapshot`.
}

// Problems is the answer to GET /api/v1/problems.
type Problems struct {
	Problems []Problem `json:"problems"`
	// How many problems this request found. The answer has the most urgent of them.
	Found      int64 `json:"found"`
	Examined   int64 `json:"examined"` // How many paused queues and groups were examined.
	Pagination Page  `json:"pagination"`
}

// QueueDetail is the answer to GET /api/v1/resources/queues/{queue}.
type QueueDetail struct {
	ID         ID            `json:"id"`
	Name       Name          `json:"name"`
	Namespace  Name          `json:"namespace"`
	Task       Name          `json:"task"`
	CreatedAt  time.Time     `json:"createdAt"`
	Paused     bool          `json:"paused"` // Its pops return nothing.
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
	Paused        bool       `json:"paused"` // Its pops return nothing.
	Stats         Counts     `json:"stats"`
	OldestMessage *time.Time `json:"oldestMessage"`
	NewestMessage *time.Time `json:"newestMessage"`
}

// QueueStatus is the answer to GET /api/v1/status/queues/{queue}.
type QueueStatus struct {
	Queue      QueueSettings     `json:"queue"`
	Partitions []PartitionStatus `json:"partitions"`
	Totals     QueueTotals       `json:"totals"` // The counts stand here twice: as members, and in `messages`.
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
	Paused    bool         `json:"paused"` // Its pops return nothing.
	Config    QueueConfig  `json:"config"`
	Options   QueueOptions `json:"options"` // All options, as `POST /api/v1/configure` takes them.
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
	Paused    bool      `json:"paused"` // Its pops return nothing.
	Messages  Counts    `json:"messages"`
	Stats     Counts    `json:"stats"` // The same counts.
	// Messages that all groups together have consumed, and expired messages that their pops skipped. Batches are not counted.
	Cursor        PartitionCursor `json:"cursor"`
	LastActivity  *time.Time      `json:"lastActivity"`
	OldestMessage *time.Time      `json:"oldestMessage"`
	NewestMessage *time.Time      `json:"newestMessage"`
}

// PartitionCursor is the progress of all groups together in a partition.
type PartitionCursor struct {
	TotalConsumed   int64 `json:"totalConsumed"`
	BatchesConsumed int64 `json:"batchesConsumed"`
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
	Unread    int64 `json:"unread"`    // The deleted messages that a group had not consumed, or that no group read.
	// Messages that expired (`expireAfterSeconds`) before a group reached them, counted once for each group. An expired message
	// that a pop skipped is counted in `totalExpired` instead.
	Expired int64 `json:"expired"`
	// Messages that were too old but could not be deleted, because of a lease or a dead letter of another group. A group that
	// had not consumed such a message was moved past it. Each message is counted once for each such group. A message that is
	// deleted later may also count in `unread`.
	Skipped int64 `json:"skipped"`
}

// Counts counts messages by state.
type Counts struct {
	Total int64 `json:"total"`
	// Messages that a group has not consumed yet, including redriven ones. The count can be too high by the number of messages
	// that were deleted one by one, for a group that started, or sought back, after these deletions. It is exact again when the
	// group has passed the gaps.
	Pending    int64 `json:"pending"`
	Processing int64 `json:"processing"`
	Completed  int64 `json:"completed"`
	Failed     int64 `json:"failed"` // Always 0. A failed message is pending again or a dead letter.
	DeadLetter int64 `json:"deadLetter"`
}

// PartitionPage is the part of the partitions of a queue that an answer has.
type PartitionPage struct {
	Limit int64   `json:"limit"`
	Next  *string `json:"next"` // The cursor of the next page. null on the last page.
	// With `countLimit`: there are partitions that the totals do not cover.
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

// Lag is how far groups are behind.
type Lag struct {
	Time   Spread `json:"time"`   // Age of unconsumed messages, in seconds.
	Offset Spread `json:"offset"` // Unconsumed messages.
}

// Throughput is the messages per second of the last minute at this instance.
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
