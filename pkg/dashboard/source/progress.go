package source

import "time"

// Next is the pagination of a list: the cursor of its next page, or nil.
type Next struct{ Next *string }

// GroupFigures are what is known of a group of one queue. With CountsAreLowerBounds there may be more.
type GroupFigures struct {
	Name                    string
	Paused, Joining         bool
	CountsAreLowerBounds    bool
	SubscriptionMode        *string
	SubscriptionTimestamp   *time.Time
	CreatedAt               time.Time
	Lag, OldestSeconds      int64
	PartitionsWithLag       int64
	Due, Leased, Resting    int64
	Failing, LeasedMessages int64
	DeadLetters             int64
	MoreDeadLetters         bool
}

// QueueGroups is GET /api/v1/resources/queues/{queue}/groups.
type QueueGroups struct {
	Partitions, Stored   int64
	CountsAreLowerBounds bool
	Groups               []GroupFigures
	Pagination           Next
}

// Heat is a partition with its unfinished messages.
type Heat struct {
	ID, Name              string
	Paused                bool
	Stored, Lag           int64
	OldestSeconds         int64
	Failures, DeadLetters int64
	MoreDeadLetters       bool
	Leased, Resting       bool
	ConsumerGroup         *string
	LastPushAt            *time.Time
}

// Heats is GET /api/v1/resources/queues/{queue}/partitions.
type Heats struct {
	Partitions []Heat
	Pagination Next
}

// Holder is who took a lease.
type Holder struct{ Caller, UserAgent string }

// Place is the place of a group in a partition.
type Place struct {
	Partition            string
	Paused               bool
	ReadyAt, StartsAt    *time.Time
	Cause                *string
	Lag, OldestSeconds   int64
	LeaseID              *string
	LeasedAt, LeaseUntil *time.Time
	Holder               *Holder
	LeasedMessages       int64
	Deliveries, Failures int64
	Consumed, Expired    int64
	LastConsumedAt       *time.Time
}

// Places is GET /api/v1/consumer-groups/{group}/queues/{queue}/partitions.
type Places struct {
	Partitions []Place
	Pagination struct {
		Next       *string
		Incomplete bool
	}
}

// GroupState is GET /api/v1/consumer-groups/{group}/queues/{queue}.
type GroupState struct {
	QueuePaused bool
	Group       GroupFigures
	Places      struct{ Due, Leased, Resting Places }
}

// SeekPreview is GET /api/v1/consumer-groups/{group}/queues/{queue}/seek.
type SeekPreview struct {
	MessagesAgain, MessagesSkipped  int64
	LeasesEnded, PartitionsExamined int64
	CountsAreLowerBounds            bool
}
