package api

import "time"

// Group is a consumer group of one queue.
type Group struct {
	Name              Name   `json:"name"`
	Topics            []Name `json:"topics"` // The queue once more.
	QueueName         Name   `json:"queueName"`
	Members           int64  `json:"members"` // Partitions in which the group has a cursor.
	PartitionsWithLag int64  `json:"partitionsWithLag"`
	TotalLag          int64  `json:"totalLag"`   // Unconsumed messages, and redriven messages that are not settled.
	MaxTimeLag        int64  `json:"maxTimeLag"` // Age of the oldest of these messages, in seconds.
	// `Lagging`: the lag is more than 300 seconds. `Dead`: and the group has never consumed a message.
	State                 string     `json:"state"`
	Paused                bool       `json:"paused"`                // Its pops return nothing.
	SubscriptionMode      *string    `json:"subscriptionMode"`      // null for a group that started at the first message.
	SubscriptionTimestamp *time.Time `json:"subscriptionTimestamp"` // It started after this instant.
	SubscriptionCreatedAt *time.Time `json:"subscriptionCreatedAt"`
}

// GroupDetail is the answer to GET /api/v1/consumer-groups/{group}: the cursors by the name of the queue.
type GroupDetail map[string]GroupQueue

// GroupQueue has the cursors of a group in one queue.
type GroupQueue struct {
	Partitions []GroupCursor `json:"partitions"`
	Truncated  bool          `json:"truncated,omitzero"` // The group has more cursors than `limit`.
}

// GroupCursor is the cursor of a group in a partition.
type GroupCursor struct {
	Partition      Name       `json:"partition"`
	WorkerID       *ID        `json:"workerId"` // The live lease.
	LastConsumedAt *time.Time `json:"lastConsumedAt"`
	TotalConsumed  int64      `json:"totalConsumed"`
	TotalExpired   int64      `json:"totalExpired"`   // Expired messages that pops of the group skipped.
	OffsetLag      int64      `json:"offsetLag"`      // Unconsumed messages, and redriven messages that are not settled.
	TimeLagSeconds int64      `json:"timeLagSeconds"` // Age of the oldest of these messages.
	LeaseActive    bool       `json:"leaseActive"`
}

// LaggingPlace is the cursor of a group whose first unconsumed message is old.
type LaggingPlace struct {
	ConsumerGroup      Name       `json:"consumer_group"`
	QueueName          Name       `json:"queue_name"`
	PartitionName      Name       `json:"partition_name"`
	PartitionID        ID         `json:"partition_id"`
	WorkerID           *ID        `json:"worker_id"`        // The live lease.
	OffsetLag          int64      `json:"offset_lag"`       // Unconsumed messages, and redriven messages that are not settled.
	TimeLagSeconds     int64      `json:"time_lag_seconds"` // Age of the oldest of these messages.
	LagHours           float64    `json:"lag_hours"`        // The time lag in hours, to two decimals.
	OldestUnconsumedAt *time.Time `json:"oldest_unconsumed_at"`
	LastConsumedAt     *time.Time `json:"last_consumed_at"`
}

// GroupFigures are the figures of a group of one queue that are read in bounded work.
type GroupFigures struct {
	Name                  Name       `json:"name"`
	Paused                bool       `json:"paused"`                // Its pops return nothing.
	SubscriptionMode      *string    `json:"subscriptionMode"`      // null for a group that started at the first message.
	SubscriptionTimestamp *time.Time `json:"subscriptionTimestamp"` // It started after this instant.
	CreatedAt             time.Time  `json:"createdAt"`
	Joining               bool       `json:"joining"`              // Its cursors in older partitions are still being made.
	CountsAreLowerBounds  bool       `json:"countsAreLowerBounds"` // It has cursors with messages left that are not examined.
	Lag                   int64      `json:"lag"`                  // Unfinished messages, and redriven messages that are not settled.
	OldestSeconds         int64      `json:"oldestSeconds"`        // The age of the oldest of these messages.
	Late                  bool       `json:"late"`                 // One of them is due or in delivery, and at least as old as `problems.late_after`, or half of `maxWaitTimeSeconds` of the queue. False while paused.
	PartitionsWithLag     int64      `json:"partitionsWithLag"`
	Due                   int64      `json:"due"`             // Partitions with a message for the next pop.
	Leased                int64      `json:"leased"`          // Partitions with a live lease.
	Resting               int64      `json:"resting"`         // Partitions whose messages wait for the end of a delay, a window or a retry.
	Failing               int64      `json:"failing"`         // Partitions whose first unfinished message has failed.
	LeasedMessages        int64      `json:"leasedMessages"`  // Messages under live leases.
	DeadLetters           int64      `json:"deadLetters"`     // Dead letters of the group, 1,000 at most.
	MoreDeadLetters       bool       `json:"moreDeadLetters"` // The group has more than `deadLetters`.
}

// QueueGroups is the answer to GET /api/v1/resources/queues/{queue}/groups.
type QueueGroups struct {
	QueueName            Name           `json:"queueName"`
	Paused               bool           `json:"paused"`               // The queue is paused.
	Partitions           int64          `json:"partitions"`           // Partitions of the queue, 1,001 at most.
	Stored               int64          `json:"stored"`               // The messages that these partitions store.
	CountsAreLowerBounds bool           `json:"countsAreLowerBounds"` // The queue has other partitions.
	Groups               []GroupFigures `json:"groups"`
	Pagination           Page           `json:"pagination"`
}

// GroupState is the answer to GET /api/v1/consumer-groups/{group}/queues/{queue}.
type GroupState struct {
	QueueName   Name         `json:"queueName"`
	QueuePaused bool         `json:"queuePaused"`
	Group       GroupFigures `json:"group"`
	Places      Places       `json:"places"`
	Timestamp   time.Time    `json:"timestamp"`
}

// Places has the beginnings of three lists of places.
type Places struct {
	Due     PlaceList `json:"due"`
	Leased  PlaceList `json:"leased"`
	Resting PlaceList `json:"resting"`
}

// PlaceList is a part of the places of a group.
type PlaceList struct {
	Partitions []Place   `json:"partitions"`
	Pagination PlacePage `json:"pagination"`
}

// Place is the place of a group in a partition.
type Place struct {
	Partition   Name       `json:"partition"`
	PartitionID ID         `json:"partitionId"`
	Paused      bool       `json:"paused"`  // The partition is paused.
	ReadyAt     *time.Time `json:"readyAt"` // When a pop can next return a message. null if nothing is left.
	// In the list `resting`: what the messages wait for. null if what is stored does not say it.
	Cause         *string    `json:"cause"`
	StartsAt      *time.Time `json:"startsAt"`      // In the list `name`: when the subscription starts there, if it has not yet.
	Lag           int64      `json:"lag"`           // Unfinished messages, and redriven messages that are not settled.
	OldestSeconds int64      `json:"oldestSeconds"` // The age of the oldest of these messages.
	LeaseID       *ID        `json:"leaseId"`       // The live lease.
	// When the lease was taken, by the clock of the instance that took it. null for a lease of a SQL consumer, which is not
	// recorded.
	LeasedAt   *time.Time `json:"leasedAt"`
	LeaseUntil *time.Time `json:"leaseUntil"` // When the lease ends.
	// Who took the lease. null if this instance does not know it, because another instance or a SQL consumer took it, it was
	// taken before the start, or more than 10000 others were taken since.
	Holder         *Holder    `json:"holder"`
	LeasedMessages int64      `json:"leasedMessages"` // The messages under the live lease.
	Deliveries     int64      `json:"deliveries"`     // Deliveries of the first unfinished message.
	Failures       int64      `json:"failures"`       // How often it has failed.
	Consumed       int64      `json:"consumed"`       // Consumed messages.
	Expired        int64      `json:"expired"`        // Expired messages that pops of the group skipped.
	LastConsumedAt *time.Time `json:"lastConsumedAt"`
}

// Holder is who took a lease.
type Holder struct {
	Caller    string `json:"caller"`    // The subject of the token or certificate, or else the address.
	UserAgent string `json:"userAgent"` // The header `User-Agent`.
}

// PlacePage is the part of a list of places that an answer has.
type PlacePage struct {
	Limit      int64   `json:"limit"`
	Next       *string `json:"next"`       // The cursor of the next page. null on the last page.
	Incomplete bool    `json:"incomplete"` // The list has ended, but not all places are in it.
}

// SeekPreview is the answer to GET /api/v1/consumer-groups/{group}/queues/{queue}/seek.
type SeekPreview struct {
	ConsumerGroup Name    `json:"consumerGroup"`
	QueueName     Name    `json:"queueName"`
	PartitionName *string `json:"partitionName"`
	// Messages that the group has finished, or that are its dead letters, and that it receives again.
	MessagesAgain        int64 `json:"messagesAgain"`
	MessagesSkipped      int64 `json:"messagesSkipped"`      // Messages that the group has not finished and does not receive.
	LeasesEnded          int64 `json:"leasesEnded"`          // Live leases that end.
	PartitionsExamined   int64 `json:"partitionsExamined"`   // Partitions in which the group has a cursor.
	CountsAreLowerBounds bool  `json:"countsAreLowerBounds"` // Not everything is examined.
	// When the count began. A seek to this `timestamp` instead of the end skips no message that came later.
	CountedAt time.Time `json:"countedAt"`
}

// PartitionHeat is a partition with its unfinished messages.
type PartitionHeat struct {
	ID              ID         `json:"id"`
	Name            Name       `json:"name"`
	Paused          bool       `json:"paused"`
	Stored          int64      `json:"stored"`          // The messages that the partition stores.
	Lag             int64      `json:"lag"`             // The unfinished messages of the group that has the most.
	OldestSeconds   int64      `json:"oldestSeconds"`   // The age of the oldest unfinished message.
	Failures        int64      `json:"failures"`        // How often the first unfinished message of a group has failed.
	Leased          bool       `json:"leased"`          // A group has a live lease.
	Resting         bool       `json:"resting"`         // The messages of a group wait for the end of a delay, a window or a retry.
	ConsumerGroup   *string    `json:"consumerGroup"`   // The group with the oldest unfinished message. null without a group.
	DeadLetters     int64      `json:"deadLetters"`     // Dead letters, 20 at most.
	MoreDeadLetters bool       `json:"moreDeadLetters"` // There are more than `deadLetters`.
	LastPushAt      *time.Time `json:"lastPushAt"`
}

// PartitionHeats is the answer to GET /api/v1/resources/queues/{queue}/partitions.
type PartitionHeats struct {
	Partitions []PartitionHeat `json:"partitions"`
	Pagination Page            `json:"pagination"`
}
