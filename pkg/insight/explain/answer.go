package explain

import (
	"time"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// Code is the reason of an Answer.
type Code string

// The codes. The first two say that a pop would receive a message now.
const (
	Deliverable     Code = "deliverable"
	NoWaiter        Code = "no_waiter"
	Behind          Code = "behind" // other messages of the partition come first
	Leased          Code = "leased"
	Resting         Code = "resting"
	Blocked         Code = "blocked" // an operator must decide about a message without a retry left
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
	NotSearched     Code = "not_searched" // the queue has more than maxSearched partitions
)

// Answer says why the group receives, or does not receive, messages of the partition or one message.
type Answer struct {
	Code     Code
	Sentence string
	// Partition is the partition of the question, or the partition in which the search found the message. It is empty if
	// the search found none.
	Partition string
	// At is when the facts were read. NextChangeAt is an instant, for example the end of a lease. If no event happens
	// before, the answer changes at NextChangeAt. It is zero if only an event changes the answer.
	At, NextChangeAt time.Time
	// Next is the transaction id of the message that is delivered next, or empty.
	Next string
	// Failures and Deliveries count for the first message after the cursor. If the Code is Resting because of a redriven
	// message, Failures counts for the redriven message.
	Failures, Deliveries int64
	// Lag counts the messages that the group is not done with. Ahead is an upper bound for the messages that come before
	// the message of the question.
	Lag, Ahead int64
	// Waiting counts the waiting pop requests of this instance that could take a message of the partition.
	Waiting int
	// Schedule stores the next message of the partition. It is empty if something is left for the group, or no schedule follows.
	Schedule string
	// Headers are the headers of the message of the question. They are nil if it has none.
	Headers queue.Headers
	// Sweeps are the rules that delete messages of the queue or let pops skip them.
	Sweeps []string
	// ConsumedAt is when the group last consumed a message of the partition. It is zero if it never did.
	ConsumedAt time.Time
	// Attempts has the stored attempts to deliver the message of the question. It is nil if nothing is stored.
	Attempts *Attempts
}

// Attempts are the attempts to deliver one message to a group that is not done with it.
type Attempts struct {
	// Deliveries and Failures count since the message was stored.
	Deliveries, Failures int64
	// LeasedUntil is the end of the lease that covers the message. After a failure, the message is not delivered before
	// RetryAt. RedrivenAt is the instant of its redrive. Each is zero if it does not apply.
	LeasedUntil, RetryAt, RedrivenAt time.Time
}
