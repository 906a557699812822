package explain

import "time"

// Code says why in one word.
type Code string

// The codes. The first two say that a pop would receive a message now.
const (
	Deliverable     Code = "deliverable"
	NoWaiter        Code = "no_waiter"
	Behind          Code = "behind" // other messages of the partition come first
	Leased          Code = "leased"
	Resting         Code = "resting"
	Delayed         Code = "delayed"
	WindowOpen      Code = "window_open"
	StartsLater     Code = "starts_later"
	QueuePaused     Code = "queue_paused"
	PartitionPaused Code = "partition_paused"
	GroupPaused     Code = "group_paused"
	PopMaintenance  Code = "pop_maintenance"
	Empty           Code = "empty"
	NoQueue         Code = "no_queue"
	NoPartition     Code = "no_partition"
	NoGroup         Code = "no_group"
	NoCursor        Code = "no_cursor"
	NotReady        Code = "not_ready"
	Undeliverable   Code = "undeliverable" // maxDeliveries is reached
	Acknowledged    Code = "acknowledged"
	BeforeStart     Code = "before_start"
	DeadLettered    Code = "dead_lettered"
	Expired         Code = "expired"
	NotStored       Code = "not_stored"
	NotSearched     Code = "not_searched" // the queue has more partitions than a search looks in
)

// Answer explains a partition and a group, or a message of them.
type Answer struct {
	Code     Code
	Sentence string
	// Partition is the partition of the question, or the one in which the search found the message. Empty: it found none.
	Partition string
	// At is when the facts were read. NextChangeAt is the latest instant at which the answer changes by
	// itself. Zero: an event changes it.
	At, NextChangeAt time.Time
	// Next is the transaction id of the message that is delivered next. Empty without such a message.
	Next string
	// Failures and Deliveries count for the first message after the cursor, or of the redriven message
	// that rests.
	Failures, Deliveries int64
	// Lag counts the messages that the group is not done with. Ahead counts those before the message of
	// the question, at most.
	Lag, Ahead int64
	// Waiting counts the requests that wait on this instance.
	Waiting int
	// Sweeps are the rules that delete messages of the queue or pass them.
	Sweeps []string
	// ConsumedAt is when the group last consumed a message of the partition. Zero: never.
	ConsumedAt time.Time
	// Attempts is what is stored of the attempts to deliver the message of the question. Nil: nothing is.
	Attempts *Attempts
}

// Attempts are the attempts to deliver one message to a group that is not done with it.
type Attempts struct {
	// Deliveries and Failures count since the message was stored.
	Deliveries, Failures int64
	// LeasedUntil is the end of the lease that covers the message, RetryAt the instant before which it is not
	// delivered after a failure, and RedrivenAt the instant of its redrive. Zero: not set.
	LeasedUntil, RetryAt, RedrivenAt time.Time
}
