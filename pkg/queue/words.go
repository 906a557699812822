package queue

import (
	"encoding/json"
	"time"
)

// NoGroup is the consumer group of a reader that names none ("queue mode").
const NoGroup = "__QUEUE_MODE__"

// DefaultPartition is the partition of a push that names none.
const DefaultPartition = "Default"

// Limits of names, and of transaction ids (wire contract, sections 0.4 and 1).
const (
	MaxNameBytes          = 255
	MaxTransactionIDRunes = 255
)

// PushItem is one message to store.
type PushItem struct {
	Queue     string
	Partition string
	// TransactionID deduplicates within the partition. Empty: one is made.
	TransactionID string
	// TraceID is zero when there is none.
	TraceID ID
	// Payload is a JSON value, stored byte for byte.
	Payload json.RawMessage
	// ProducerSub names the authenticated producer; empty: none.
	ProducerSub string
	// VisibleAt delays the message (and what follows it in the partition) until
	// that instant. Zero: not delayed.
	VisibleAt time.Time
	// Delay is the same from the instant of the push on, by the database's clock.
	// At most one of the two is set.
	Delay time.Duration
}

// PushResult says what became of one PushItem.
type PushResult struct {
	// Duplicate: the transaction id was in the partition already, and
	// MessageID is the id of the message stored then.
	Duplicate     bool
	MessageID     ID
	PartitionID   ID
	TransactionID string
}

// SequenceResult says what became of one row of the inbox.
type SequenceResult struct {
	// Duplicate: its message is stored already.
	Duplicate bool
	// Refused: it was not stored and is still in the inbox, since its queue has
	// no room; what to tell the operator.
	Refused *Error
}

// PopRequest is one pop: what a request asks for.
type PopRequest struct {
	// Queue is empty with Tags.
	Queue string
	// Partition restricts the pop to one partition; nil means any.
	Partition *string
	// Tags, when not nil, pops from whichever matching queue is due first.
	Tags *Tags
	// Group is the consumer group; NoGroup when the request named none.
	Group string
	// Batch bounds the messages, Partitions the partitions; both at least 1.
	Batch, Partitions int
	// AutoAck consumes on delivery: no lease, at most once.
	AutoAck bool
	// Subscription is where a group that is not registered yet starts.
	Subscription Subscription
	// Wait is how long to wait for a message; 0 looks once.
	Wait time.Duration
	// WaitingSince is when it began to wait: what is stored after that is new to a group
	// that is registered later. Zero: it has only just come.
	WaitingSince time.Time
	// RefreshSince is when its group turned out to be deleted, if it did: then what was stored
	// before that is not new to a group made anew, unless the queue is new as well.
	RefreshSince time.Time
}

// Tags match queues; an empty field matches any.
type Tags struct{ Namespace, Task string }

// SubscriptionMode says where a new consumer group starts.
type SubscriptionMode string

// The subscription modes.
const (
	// SubscribeAll starts at the first message.
	SubscribeAll SubscriptionMode = "all"
	// SubscribeNew starts after the last message stored when the pop came that
	// registers the group.
	SubscribeNew SubscriptionMode = "new"
	// SubscribeFrom starts after the last message stored at or before From, which
	// may be in the future.
	SubscribeFrom SubscriptionMode = "timestamp"
)

// Subscription is where a consumer group starts.
type Subscription struct {
	Mode SubscriptionMode
	// From is set with SubscribeFrom.
	From time.Time
}

// Epoch is one life of a database: another one begins when Postgres starts again,
// perhaps on a standby that lacks the last commits or on files that were put back, and
// when the tables are made anew, restored or truncated. What is remembered by id counts
// for one life.
type Epoch int64

// Partition is what is remembered of a partition. Only Sealed and Bounded can
// change, and a push notices when they have.
type Partition struct {
	// Key is the row's id in the database, in one life of it.
	Key  int64
	Epoch Epoch
	// ID is its id on the wire.
	ID       ID
	Name     string
	QueueKey int64
	Queue    string
	// Sealed: its queue encrypts payloads at rest.
	Sealed bool
	// Bounded: its queue has a maxSize.
	Bounded bool
}

// Message is one delivered message.
type Message struct {
	Partition     *Partition
	Seq           int64
	ID            ID
	TransactionID string
	TraceID       ID
	Payload       json.RawMessage
	ProducerSub   string
	CreatedAt     time.Time
	// Attempt counts the deliveries of the partition's first message, this one
	// included; 0 with AutoAck.
	Attempt int
}

// Delivery is the answer to a pop. No messages: nothing was poppable.
type Delivery struct {
	Queue string
	Group string
	// LeaseID covers every partition of the delivery; zero with AutoAck.
	LeaseID  ID
	Messages []Message
	// Partitions is how many partitions were claimed.
	Partitions int

	// NextIn is how long until something that the claim saw is due: what it
	// leased or left behind, or, when it claimed nothing, what is due next.
	// HasNext is false when nothing is in sight.
	NextIn  time.Duration
	HasNext bool
	// Contested: something was due, and a rival holds it or it was not poppable
	// after all. No messages then does not mean that there are none.
	Contested bool
	// Gone: the consumer group was deleted since it was resolved.
	Gone bool
	// Target is what a pop by name looked at: zero when it does not exist, and not
	// what was resolved before when that was deleted meanwhile.
	Target Target
	// Watched are the groups a pop by tags looked at.
	Watched []int64
	// DatabaseNow is the database's clock at the claim and ReceivedAt the local
	// clock when its rows had arrived: the two ends of a latency are measured
	// by one clock each.
	DatabaseNow time.Time
	ReceivedAt  time.Time
}

// NoteDueIn notes that something more is due after in; the earliest counts.
func (d *Delivery) NoteDueIn(in time.Duration) {
	if !d.HasNext || in < d.NextIn {
		d.HasNext, d.NextIn = true, in
	}
}

// Target is what a pop claims from, by database id, in one life of the database.
// Partition 0 means any partition of the group's queue.
type Target struct {
	Group, Partition int64
	Epoch             Epoch
}

// Handoff is a claim that a push makes for a request that waits for what is
// pushed, right after its commit and in the same round trip.
type Handoff struct {
	Assignment
	// Take is called exactly once, with what was claimed, or with no messages.
	// False: the request has gone on, and the delivery must be released. It does
	// not block.
	Take func(d Delivery) (taken bool)
}

// Ready says that a partition became poppable for a group, or will in a while.
// Partition 0 stands for any.
type Ready struct {
	Group, Partition int64
	// In is how long it takes; 0 or less: now.
	In time.Duration
	// At is the same instant by the clock of the database; zero: not known.
	At time.Time
}

// Probe asks a preflight about a target.
type Probe struct {
	Target Target
	// Want bounds the candidates.
	Want int
}

// Candidate is a partition a preflight found something in.
type Candidate struct {
	Partition int64
	// In is how long until it is poppable; 0 or less: now.
	In    time.Duration
	Depth int64
	// Why it is not poppable yet, when In is positive.
	Leased, WindowOpen, Paused bool
}

// ProbeResult answers a Probe.
type ProbeResult struct {
	// Gone: the group does not exist any more.
	Gone bool
	// Candidates are the longest due partitions, Want at most, and the one that
	// is due next.
	Candidates []Candidate
}

// Assignment is a claim to make for a waiting pop.
type Assignment struct {
	Request *PopRequest
	// Target is claimed; without a partition: any, up to Request.Partitions.
	Target Target
}

// AckStatus is what a consumer says of a message.
type AckStatus int

// The ack statuses.
const (
	// AckUnknown has no effect.
	AckUnknown AckStatus = iota
	// AckCompleted: done, with everything before it in the partition.
	AckCompleted
	// AckFailed: redeliver from the cursor; dead-letter when out of retries.
	AckFailed
	// AckDead: dead-letter this message now.
	AckDead
	// AckRetry: redeliver from the cursor without counting a failure.
	AckRetry
)

// ParseAckStatus reads the status of the wire contract (section 3.3).
func ParseAckStatus(s string) AckStatus {
	switch s {
	case "completed", "success":
		return AckCompleted
	case "failed":
		return AckFailed
	case "dlq":
		return AckDead
	case "retry":
		return AckRetry
	default:
		return AckUnknown
	}
}

// AckItem is one acknowledgment.
type AckItem struct {
	TransactionID string
	// PartitionID is as sent; what is no UUID names no message.
	PartitionID string
	Group       string
	// LeaseID fences the ack; empty: no check.
	LeaseID string
	Status  AckStatus
	// Error is kept with a dead letter.
	Error string
}

// AckResult says what became of one AckItem.
type AckResult struct {
	Success bool
	// Error says why not; empty with Success, and for an unknown status.
	Error     string
	Queue     string
	Partition string
	// Resolved: Queue, Partition and LeaseReleased are known.
	Resolved bool
	// LeaseReleased: the group has no lease on the partition any more.
	LeaseReleased bool
	DeadLettered  bool
}
