package api

import "time"

// Push is the body of POST /api/v1/push.
type Push struct {
	Items []PushItem `json:"items"` // The messages. The array may be empty.
}

// PushItem is a message to push.
type PushItem struct {
	Queue Name `json:"queue"` // The queue, which is created by the first push to it. Its name has at most 255 bytes.
	// The partition, within which messages stay in order. An absent one is `Default`.
	Partition Name `json:"partition,omitzero"`
	// Stored once per partition. It has at most 255 characters. For an absent or empty id the server generates one.
	TransactionID string `json:"transactionId,omitzero"`
	TraceID       string `json:"traceId,omitzero"` // A UUID that is stored with the message. Empty means none.
	// Any JSON value that all clients can read (see Bodies above). It is delivered byte for byte. An absent payload is `null`.
	Payload any `json:"payload"`
	// The earliest delivery, in seconds after the push, at most a year. Later messages of the partition wait for this message.
	DelaySeconds float64 `json:"delaySeconds,omitzero"`
	// The earliest delivery as an instant, at most a year from now. Cannot be combined with `delaySeconds`.
	VisibleAt time.Time `json:"visibleAt,omitzero"`
}

// PushStatus says what became of a pushed message.
type PushStatus string

// The statuses of a pushed message.
const (
	// Queued means that the message is stored.
	Queued PushStatus = "queued"
	// Duplicate means that a message with this transaction id is stored already.
	Duplicate PushStatus = "duplicate"
	// Buffered means that push maintenance is on: the message is on the disk of the server, and is stored later.
	Buffered PushStatus = "buffered"
)

// PushResult is what became of an item of a push. The answer has one for each item, in the order of the request.
type PushResult struct {
	Index         int        `json:"index"` // The index of the item in the request.
	Status        PushStatus `json:"status"`
	TransactionID string     `json:"transaction_id"`
	// The id of the stored message, also of a duplicate. Absent if the message is buffered.
	MessageID   ID     `json:"message_id,omitzero"`
	PartitionID ID     `json:"partition_id,omitzero"` // The id of the partition. Only if the status is `queued`.
	TraceID     string `json:"trace_id,omitzero"`     // The trace id of the request, or null. Only if the status is `queued`.
	Queue       Name   `json:"queueName"`
	// The unknown members of the item that resemble known ones, and were ignored. Absent without any.
	Warnings []string `json:"warnings,omitzero"`
}
