package api

// DeletedMessage is the answer of DELETE /api/v1/messages/:partitionId/:transactionId.
type DeletedMessage struct {
	// The message existed.
	Success       bool   `json:"success"`
	PartitionID   string `json:"partitionId"`
	TransactionID string `json:"transactionId"`
	Message       string `json:"message"`
}

// ParkedMessage is the answer when a message became a dead letter.
type ParkedMessage struct {
	Success       bool   `json:"success"`
	PartitionID   string `json:"partitionId"`
	TransactionID string `json:"transactionId"`
	Group         Name   `json:"consumerGroup"`
	DeadLetter    bool   `json:"dlq"`
}

// RetriedMessage is the answer when a dead letter is delivered again.
type RetriedMessage struct {
	Success       bool   `json:"success"`
	PartitionID   string `json:"partitionId"`
	TransactionID string `json:"transactionId"`
	// null means every group.
	Group *Name `json:"consumerGroup"`
	// The number of groups.
	Redriven int64 `json:"redriven"`
}

// RetriedRows is the answer when rejected rows were put back into the inbox.
type RetriedRows struct {
	Success bool  `json:"success"`
	Retried int64 `json:"retried"`
	// The request stopped after 10 seconds. The same request continues.
	More bool `json:"more"`
}

// DiscardedRows is the answer when rejected rows of the inbox were deleted.
type DiscardedRows struct {
	Success   bool  `json:"success"`
	Discarded int64 `json:"discarded"`
	// The request stopped after 10 seconds. The same request continues.
	More bool `json:"more"`
}

// Switch is the body of a request that begins or ends maintenance.
type Switch struct {
	Enabled bool `json:"enabled"`
}

// PushMaintenanceSet is the answer when push maintenance was begun or ended.
type PushMaintenanceSet struct {
	MaintenanceMode bool `json:"maintenanceMode"`
	// Messages in the spool of this instance.
	BufferedMessages int64 `json:"bufferedMessages"`
	// This instance can use its spool.
	BufferHealthy bool   `json:"bufferHealthy"`
	Message       string `json:"message"`
}

// RejectedChanged is the answer when the rejected messages of a spool were put back or removed.
type RejectedChanged struct {
	Success bool `json:"success"`
	// How many messages there were.
	Messages int64 `json:"messages"`
}

// AddedTrace is the answer of POST /api/v1/traces.
type AddedTrace struct {
	Success bool `json:"success"`
	TraceID ID   `json:"traceId"`
}

// StreamEnd is the event closing of GET /api/v1/sse/queue/:queue.
type StreamEnd struct {
	// `timeout`, `unauthorized`, `shutdown`, `overloaded` or `error`.
	Reason string `json:"reason"`
	// Only if the reason is `overloaded`: connect again after so many seconds.
	RetryAfter *int `json:"retryAfter,omitzero"`
	// Only if the reason is `overloaded` or `error`.
	Error *string `json:"error,omitzero"`
}
