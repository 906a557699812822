package queue

import (
	"encoding/json"
	"time"
)

// MaxPushDelay is how far in the future a pushed message may become visible.
const MaxPushDelay = 365 * 24 * time.Hour

// PushItem is one message to store.
type PushItem struct {
	Queue     string
	Partition string
	// Tenant is the tenant of the partition, if the push creates the partition. A partition keeps its tenant. Empty: the queue
	// option tenantDelimiter decides.
	Tenant string
	// TransactionID identifies the message within the partition: a second push with the same id is a duplicate. If it is empty,
	// the store generates an id.
	TransactionID string
	// TraceID is zero if the message has no trace.
	TraceID ID
	// Payload is a JSON value. It is stored byte for byte.
	Payload json.RawMessage
	// Headers are nil if the message has none.
	Headers Headers
	// ProducerSub names the authenticated producer. Empty: the producer is not authenticated.
	ProducerSub string
	// VisibleAt is the earliest time of delivery of this message, and of the later messages of the partition. Zero: no delay.
	VisibleAt time.Time
	// Delay delays the message by this duration from the push on, by the clock of
	// the database. At most one of VisibleAt and Delay is set.
	Delay time.Duration
}

// PushResult is the result of one PushItem.
type PushResult struct {
	// Duplicate: the partition already had a message with the transaction id.
	// MessageID is the id of that message.
	Duplicate bool
	// Buffered: the message is in the spool, the files of this instance, and not yet in the database. It has no MessageID and no
	// PartitionID yet.
	Buffered      bool
	MessageID     ID
	PartitionID   ID
	TransactionID string
}

// SequenceResult is the result of one row of the inbox.
type SequenceResult struct {
	// Duplicate: the message of the row was stored before.
	Duplicate bool
	// Refused is the error of a row whose queue is full. Its text is for the operator. The row was not stored and stays in the
	// inbox. Nil: the queue was not full.
	Refused *Error
}
