package api

import "time"

// Group is a consumer group of one queue.
type Group struct {
	Name              Name   `json:"name"`
	Topics            []Name `json:"topics"` // One element: the queue.
	QueueName         Name   `json:"queueName"`
	Members           int64  `json:"members"` // Partitions in which the group has a cursor.
	PartitionsWithLag int64  `json:"partitionsWithLag"`
	TotalLag          int64  `json:"totalLag"`   // Unfinished messages, including redriven messages.
	MaxTimeLag        int64  `json:"maxTimeLag"` // The age of the oldest unfinished message, in seconds.
	// `Stable`: `maxTimeLag` is at most 300. `Lagging`: `maxTimeLag` is above 300. `Dead`: `maxTimeLag` is above 300, and the
	// group has never consumed a message.
	State                 string     `json:"state"`
	Paused                bool       `json:"paused"`                // Pops of the group return no messages.
	SubscriptionMode      *string    `json:"subscriptionMode"`      // null for a group that started at the first message.
	SubscriptionTimestamp *time.Time `json:"subscriptionTimestamp"` // The group started with the messages after this instant.
	SubscriptionCreatedAt *time.Time `json:"subscriptionCreatedAt"`
}

// GroupDetail is the answer to GET /api/v1/consumer-groups/{group}. The keys are names of queues.
type GroupDetail map[string]GroupQueue

// GroupQueue has the cursors of a group in one queue.
type GroupQueue struct {
	Partitions []GroupCursor `json:"partitions"`
	Truncated  bool          `json:"truncated,omitzero"` // The group has more cursors than `limit`.
}

// GroupCursor is the cursor of a group in a partition.
type GroupCursor struct {
	Partition      Name       `json:"partition"`
	WorkerID       *ID        `json:"workerId"` // The id of the live lease.
	LastConsumedAt *time.Time `json:"lastConsumedAt"`
	TotalConsumed  int64      `json:"totalConsumed"`
	TotalExpired   int64      `json:"totalExpired"`   // Expired messages that pops of the group skipped.
	OffsetLag      int64      `json:"offsetLag"`      // Unfinished messages, including redriven messages.
	TimeLagSeconds int64      `json:"timeLagSeconds"` // The age of the oldest unfinished message.
	LeaseActive    bool       `json:"leaseActive"`
}

// LaggingPlace is the cursor of a group whose first unconsumed message is old.
type LaggingPlace struct {
	ConsumerGroup      Name       `json:"consumer_group"`
	QueueName          Name       `json:"queue_name"`
	PartitionName      Name       `json:"partition_name"`
	PartitionID        ID         `json:"partition_id"`
	WorkerID           *ID        `json:"worker_id"`        // The id of the live lease.
	OffsetLag          int64      `json:"offset_lag"`       // Unfinished messages, including redriven messages.
	TimeLagSeconds     int64      `json:"time_lag_seconds"` // The age of the oldest unfinished message.
	LagHours           float64    `json:"lag_hours"`        // The time lag in hours, to two decimals.
	OldestUnconsumedAt *time.Time `json:"oldest_unconsumed_at"`
	LastConsumedAt     *time.Time `json:"last_consumed_at"`
}

// GroupFigures are the totals of a group of one queue.
type GroupFigures struct {
	Name                  Name       `json:"name"`
	Paused                bool       `json:"paused"`                // Pops of the group return no messages.
	SubscriptionMode      *string    `json:"subscriptionMode"`      // null for a group that started at the first message.
	SubscriptionTimestamp *time.Time `json:"subscriptionTimestamp"` // The group started with the messages after this instant.
	CreatedAt             time.Time  `json:"createdAt"`
	Joining               bool       `json:"joining"`       // The server is still creating the cursors of the group.
	Partitions            int64      `json:"partitions"`    // Partitions in which the group has a cursor.
	Lag                   int64      `json:"lag"`           // Unfinished messages, including redriven messages.
	OldestSeconds         int64      `json:"oldestSeconds"` // The age of the oldest unfinished message.
	Late                  bool       `json:"late"`          // A message that is due or leased is older than `problems.late_after`, or than half of `maxWaitTimeSeconds` of the queue. False while paused.
	PartitionsWithLag     int64      `json:"partitionsWithLag"`
	Due                   int64      `json:"due"`            // Partitions from which a pop returns a message now.
	Leased                int64      `json:"leased"`         // Partitions with a live lease.
	Resting               int64      `json:"resting"`        // Partitions whose messages wait for the end of a delay, a window or a retry.
	Failing               int64      `json:"failing"`        // Partitions whose first unfinished message has failed.
	LeasedMessages        int64      `json:"leasedMessages"` // Messages that live leases cover.
	DeadLetters           int64      `json:"deadLetters"`    // Dead letters of the group.
	LastConsumedAt        *time.Time `json:"lastConsumedAt"` // When the group last consumed a message. null if it never did.
}

// Scale is the answer to GET /api/v1/scale/{queue}/{group}.
type Scale struct {
	// Unfinished messages of the group, also those in delivery. 0 if no message can be delivered now and none is in delivery.
	Pending    int64 `json:"pending"`
	LagSeconds int64 `json:"lagSeconds"` // The age of the oldest message that can be delivered now or is in delivery.
}

// QueueGroups is the answer to GET /api/v1/resources/queues/{queue}/groups.
type QueueGroups struct {
	CountedAt     time.Time      `json:"countedAt"` // Everything that was committed before this instant is counted.
	QueueName     Name           `json:"queueName"`
	Paused        bool           `json:"paused"`     // The queue is paused.
	Partitions    int64          `json:"partitions"` // Partitions of the queue.
	Messages      Counts         `json:"messages"`   // Its `deadLetter` counts the messages that are dead letters of at least one group.
	DeadLetters   int64          `json:"deadLetters"`
	OldestSeconds *int64         `json:"oldestSeconds"` // The age of the oldest message that a group has not finished. null if there is none.
	Groups        []GroupFigures `json:"groups"`
	Pagination    Page           `json:"pagination"`
}

// GroupState is the answer to GET /api/v1/consumer-groups/{group}/queues/{queue}.
type GroupState struct {
	CountedAt   time.Time    `json:"countedAt"` // Everything that was committed before this instant is counted in `group`.
	QueueName   Name         `json:"queueName"`
	QueuePaused bool         `json:"queuePaused"`
	Group       GroupFigures `json:"group"`
	Places      Places       `json:"places"`
	Timestamp   time.Time    `json:"timestamp"` // When `places` was read.
}

// GroupPage is the answer to GET /api/v1/groups.
type GroupPage struct {
	CountedAt  time.Time     `json:"countedAt"` // Everything that was committed before this instant is counted.
	Groups     []ListedGroup `json:"groups"`
	Pagination Page          `json:"pagination"`
}

// ListedGroup is a group of one queue with its totals.
type ListedGroup struct {
	QueueName   Name `json:"queueName"`
	QueuePaused bool `json:"queuePaused"`
	GroupFigures
	Served *Served `json:"served,omitzero"` // Present with `served=true`.
}

// Served says what the instances do for a group.
type Served struct {
	DeliveredPerSecond float64 `json:"deliveredPerSecond"` // The rate in the last finished minute.
	// The instances that have delivered a message since the begin of that minute, or hold waiting requests of the group. A token
	// with grants sees no instances.
	Instances []ServingInstance `json:"instances"`
}

// ServingInstance is an instance that serves a group.
type ServingInstance struct {
	Hostname string `json:"hostname"`
	PID      int64  `json:"pid"`
	Waiting  int64  `json:"waiting"` // The last written number of waiting requests.
}

// Places has the first page of three lists of places.
type Places struct {
	Due     PlaceList `json:"due"`
	Leased  PlaceList `json:"leased"`
	Resting PlaceList `json:"resting"`
}

// PlaceList is a page of the places of a group.
type PlaceList struct {
	Partitions []Place   `json:"partitions"`
	Pagination PlacePage `json:"pagination"`
}

// Place is the cursor of a group in a partition.
type Place struct {
	Partition   Name       `json:"partition"`
	PartitionID ID         `json:"partitionId"`
	Paused      bool       `json:"paused"`  // The partition is paused.
	ReadyAt     *time.Time `json:"readyAt"` // When a pop can next return a message. null if no message is left, or if the partition is blocked.
	// In the list `resting`: the reason why the messages wait. null if the stored data does not show the reason.
	Cause         *string    `json:"cause"`
	StartsAt      *time.Time `json:"startsAt"`      // In the list `name`: when the subscription will start in this partition.
	Lag           int64      `json:"lag"`           // Unfinished messages, including redriven messages.
	OldestSeconds int64      `json:"oldestSeconds"` // The age of the oldest unfinished message.
	LeaseID       *ID        `json:"leaseId"`       // The id of the live lease.
	// When the instance took the lease, by the clock of the instance. null for the lease of a SQL consumer.
	LeasedAt   *time.Time `json:"leasedAt"`
	LeaseUntil *time.Time `json:"leaseUntil"` // When the lease ends.
	// Who took the lease. null if this instance did not give the lease since its start, or has given more than 10,000 other
	// leases since then.
	Holder         *Holder    `json:"holder"`
	LeasedMessages int64      `json:"leasedMessages"` // The messages that the live lease covers.
	Deliveries     int64      `json:"deliveries"`     // Deliveries of the first unfinished message.
	Failures       int64      `json:"failures"`       // Failed acknowledgments of the first unfinished message.
	Consumed       int64      `json:"consumed"`       // Consumed messages.
	Expired        int64      `json:"expired"`        // Expired messages that pops of the group skipped.
	LastConsumedAt *time.Time `json:"lastConsumedAt"`
}

// Holder is who took a lease.
type Holder struct {
	Caller    string `json:"caller"`    // The subject of the token or certificate, or else the address.
	UserAgent string `json:"userAgent"` // The header `User-Agent`.
}

// PlacePage describes a page of a list of places.
type PlacePage struct {
	Limit      int64   `json:"limit"`
	Next       *string `json:"next"`       // The cursor of the next page. null on the last page.
	Incomplete bool    `json:"incomplete"` // The list has ended, but does not contain all places.
}

// SeekPreview is the answer to GET /api/v1/consumer-groups/{group}/queues/{queue}/seek.
type SeekPreview struct {
	ConsumerGroup Name    `json:"consumerGroup"`
	QueueName     Name    `json:"queueName"`
	PartitionName *string `json:"partitionName"`
	// Messages that the group receives again: finished messages and dead letters.
	MessagesAgain        int64 `json:"messagesAgain"`
	MessagesSkipped      int64 `json:"messagesSkipped"`      // Unfinished messages that the group will not receive.
	LeasesEnded          int64 `json:"leasesEnded"`          // Live leases that end.
	PartitionsExamined   int64 `json:"partitionsExamined"`   // Partitions in which the group has a cursor.
	CountsAreLowerBounds bool  `json:"countsAreLowerBounds"` // The server did not examine all messages.
	// The instant at which the count began. A seek to this `timestamp` instead of the end skips no later message.
	CountedAt time.Time `json:"countedAt"`
	// The name of the last examined partition, if there may be more. With it as `cursor`, the next request examines the next ones.
	Next *string `json:"next"`
}

// PartitionHeat is a partition with its unfinished messages.
type PartitionHeat struct {
	ID              ID         `json:"id"`
	Name            Name       `json:"name"`
	Paused          bool       `json:"paused"`
	Stored          int64      `json:"stored"`          // The messages that the partition stores.
	Lag             int64      `json:"lag"`             // The largest number of messages that a group has not finished.
	OldestSeconds   int64      `json:"oldestSeconds"`   // The age of the oldest unfinished message.
	Failures        int64      `json:"failures"`        // The most failures of the first unfinished message of a group.
	Leased          bool       `json:"leased"`          // A group has a live lease.
	Resting         bool       `json:"resting"`         // The messages of a group wait for the end of a delay, a window or a retry.
	ConsumerGroup   *string    `json:"consumerGroup"`   // The group with the oldest unfinished message. null if no group has a cursor in the partition.
	DeadLetters     int64      `json:"deadLetters"`     // Dead letters, at most 20.
	MoreDeadLetters bool       `json:"moreDeadLetters"` // The partition has more than `deadLetters`.
	LastPushAt      *time.Time `json:"lastPushAt"`
}

// PartitionSearch is the answer to GET /api/v1/resources/queues/{queue}/search.
type PartitionSearch struct {
	Partitions []FoundPartition `json:"partitions"`
	// How many partitions were examined, on this page and the earlier ones. Names that begin with the part are examined first.
	Searched   int64  `json:"searched"`
	Of         *int64 `json:"of"`         // The partitions of the queue when the server last counted. null if it has not counted.
	Pagination Page   `json:"pagination"` // A page with a next page can have few partitions or none.
}

// FoundPartition is a partition whose name has the part.
type FoundPartition struct {
	ID   ID   `json:"id"`
	Name Name `json:"name"`
}

// PartitionHeats is the answer to GET /api/v1/resources/queues/{queue}/partitions.
type PartitionHeats struct {
	Partitions []PartitionHeat `json:"partitions"`
	Pagination Page            `json:"pagination"`
}
