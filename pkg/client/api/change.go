package api

import "time"

// DeletedMessage is the answer of DELETE /api/v1/messages/:partitionId/:transactionId.
type DeletedMessage struct {
	Success       bool   `json:"success"` // The message existed.
	PartitionID   string `json:"partitionId"`
	TransactionID string `json:"transactionId"`
	Message       string `json:"message"`
}

// MovedMessage is the answer to PATCH /api/v1/messages/{partitionId}/{transactionId}.
type MovedMessage struct {
	Success       bool   `json:"success"`
	PartitionID   string `json:"partitionId"`
	TransactionID string `json:"transactionId"`
	// The new instant. null: the message has no delay.
	VisibleAt *time.Time `json:"visibleAt"`
	// The instant before the request.
	VisibleAtBefore *time.Time `json:"visibleAtBefore"`
}

// ParkedMessage is the answer when an operator made a message a dead letter.
type ParkedMessage struct {
	Success       bool   `json:"success"`
	PartitionID   string `json:"partitionId"`
	TransactionID string `json:"transactionId"`
	Group         Name   `json:"consumerGroup"`
	DeadLetter    bool   `json:"dlq"`
}

// DiscardedMessage is the answer to DELETE /api/v1/messages/{partitionId}/{transactionId}/dlq.
type DiscardedMessage struct {
	Success       bool   `json:"success"`
	PartitionID   string `json:"partitionId"`
	TransactionID string `json:"transactionId"`
	Group         *Name  `json:"consumerGroup"` // null means every group.
	Discarded     int64  `json:"discarded"`     // The number of groups whose dead letter is deleted.
}

// RetriedMessage is the answer when a dead letter is delivered again.
type RetriedMessage struct {
	Success       bool   `json:"success"`
	PartitionID   string `json:"partitionId"`
	TransactionID string `json:"transactionId"`
	Group         *Name  `json:"consumerGroup"` // null means every group.
	Redriven      int64  `json:"redriven"`      // The number of groups that receive the message again.
}

// RetriedRows is the answer when rejected rows were put back into the inbox.
type RetriedRows struct {
	Success bool  `json:"success"`
	Retried int64 `json:"retried"`
	More    bool  `json:"more"` // The request stopped after 10 seconds. The same request continues.
}

// DiscardedRows is the answer when rejected rows of the inbox were deleted.
type DiscardedRows struct {
	Success   bool  `json:"success"`
	Discarded int64 `json:"discarded"` // The number of groups whose dead letter is deleted.
	More      bool  `json:"more"`      // The request stopped after 10 seconds. The same request continues.
}

// Switch is the body of a request that begins or ends maintenance.
type Switch struct {
	Enabled bool `json:"enabled"`
}

// PushMaintenanceSet is the answer when push maintenance was begun or ended.
type PushMaintenanceSet struct {
	MaintenanceMode  bool   `json:"maintenanceMode"`
	BufferedMessages int64  `json:"bufferedMessages"` // Messages in the spool of this instance.
	BufferHealthy    bool   `json:"bufferHealthy"`    // This instance can use its spool.
	Message          string `json:"message"`
}

// RejectedChanged is the answer when the rejected messages of a spool were put back or removed.
type RejectedChanged struct {
	Success  bool  `json:"success"`
	Messages int64 `json:"messages"` // The number of messages that the request put back or removed.
}

// AddedTrace is the answer of POST /api/v1/traces.
type AddedTrace struct {
	Success bool `json:"success"`
	TraceID ID   `json:"traceId"`
}

// StreamEnd is the event `closing` of GET /api/v1/sse/queue/:queue.
type StreamEnd struct {
	Reason string `json:"reason"` // `timeout`, `unauthorized`, `shutdown`, `overloaded` or `error`.
	// The seconds to wait before the next connection. Present only if the reason is `overloaded`.
	RetryAfter *int    `json:"retryAfter,omitzero"`
	Error      *string `json:"error,omitzero"` // Present only if the reason is `overloaded` or `error`.
}
