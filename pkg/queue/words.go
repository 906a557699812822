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
}

// Tags match queues; an empty field matches any.
type Tags struct{ Namespace, Task string }

// SubscriptionMode says where a new consumer group starts.
type SubscriptionMode string

// The subscription modes.
const (
	// SubscribeAll starts at the first message.
	SubscribeAll SubscriptionMode = "all"
	// SubscribeNew starts after the last message stored when the group is
	// registered.
	SubscribeNew SubscriptionMode = "new"
	// SubscribeFrom starts after the last message stored at or before From.
	SubscribeFrom SubscriptionMode = "timestamp"
)

// Subscription is where a consumer group starts.
type Subscription struct {
	Mode SubscriptionMode
	// From is set with SubscribeFrom.
	From time.Time
}

// Partition is what is remembered of a partition. Only Sealed can change, and a
// push notices when it has.
type Partition struct {
	// Key is the row's id in the database.
	Key int64
	// ID is its id on the wire.
	ID       ID
	Name     string
	QueueKey int64
	Queue    string
	// Sealed: its queue encrypts payloads at rest.
	Sealed bool
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
