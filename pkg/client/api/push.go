package api

import "time"

// Push is the body of POST /api/v1/push.
type Push struct {
	Items []PushItem `json:"items"` // The messages. The array may be empty.
}

// PushItem is a message to push.
type PushItem struct {
	Queue Name `json:"queue"` // The queue. The first push to a queue creates it. The name has at most 255 bytes.
	// The partition. Messages stay in order within a partition. An absent partition means `Default`.
	Partition Name `json:"partition,omitzero"`
	// The tenant of the partition, at most 255 bytes. It is stored if the push creates the partition. A partition keeps its tenant,
	// so it is ignored later.
	Tenant Name `json:"tenant,omitzero"`
	// The id of the message, at most 255 characters. A partition stores only one message with the same id. If the id is absent
	// or empty, the server generates an id.
	TransactionID string `json:"transactionId,omitzero"`
	// A UUID that is stored with the message. If it is empty, the trace id of the header `traceparent` is stored, if there is one.
	TraceID string `json:"traceId,omitzero"`
	// Texts that travel with the message, at most 32, with 8 KiB together. A name has at most 128 letters, digits and characters of
	// !#$%&'*+-.^_`|~ and is stored in lower case. A value has no control characters.
	Headers map[string]string `json:"headers,omitzero"`
	// Any JSON value that all clients can read (see Bodies above). It is delivered byte for byte. An absent payload means `null`.
	Payload any `json:"payload"`
	// The earliest delivery, in seconds after the push, at most a year. Later messages of the partition wait for this message.
	DelaySeconds float64 `json:"delaySeconds,omitzero"`
	// The earliest delivery as an instant, at most a year from now. Cannot be combined with `delaySeconds`.
	VisibleAt time.Time `json:"visibleAt,omitzero"`
}

// PushStatus says whether a pushed message is stored.
type PushStatus string

// The statuses of a pushed message.
const (
	// Queued means that the message is stored.
	Queued PushStatus = "queued"
	// Duplicate means that the partition already has a message with this transaction id.
	Duplicate PushStatus = "duplicate"
	// Buffered means that push maintenance is on. The server keeps the message on disk, and stores it later.
	Buffered PushStatus = "buffered"
)

// PushResult is the result of an item of a push. The answer has a result for each item, in the order of the request.
type PushResult struct {
	Index         int        `json:"index"` // The index of the item in the request.
	Status        PushStatus `json:"status"`
	TransactionID string     `json:"transaction_id"`
	// The id of the stored message. For a duplicate, the id of the earlier message. Absent if the message is buffered.
	MessageID   ID     `json:"message_id,omitzero"`
	PartitionID ID     `json:"partition_id,omitzero"` // The id of the partition. Present only if the status is `queued`.
	TraceID     string `json:"trace_id,omitzero"`     // The trace id of the item, or null. Present only if the status is `queued`.
	Queue       Name   `json:"queueName"`
	// The unknown members of the item that resemble known members. The server ignored them. Absent without a warning.
	Warnings []string `json:"warnings,omitzero"`
}
