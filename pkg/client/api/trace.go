package api

import (
	"encoding/json"
	"time"
)

// Trace is a note of a consumer about a message.
type Trace struct {
	ID            ID              `json:"id"`
	EventType     string          `json:"event_type"`
	Data          json.RawMessage `json:"data"` // The data as sent.
	ConsumerGroup Name            `json:"consumer_group"`
	WorkerID      string          `json:"worker_id"`
	CreatedAt     time.Time       `json:"created_at"`
	Names         []Name          `json:"trace_names"`
}

// NamedTrace is a trace with its message.
type NamedTrace struct {
	Trace
	TransactionID *string         `json:"transaction_id"`
	PartitionID   ID              `json:"partition_id"`
	Queue         Name            `json:"queue_name"`
	Partition     Name            `json:"partition_name"`
	Payload       json.RawMessage `json:"message_payload"` // The payload of the message.
}

// Traces is the answer to GET /api/v1/traces/{partitionId}/{transactionId}.
type Traces struct {
	Traces     []Trace    `json:"traces"`
	Pagination CursorPage `json:"pagination"`
}

// NamedTraces is the answer to GET /api/v1/traces/by-name/{name}.
type NamedTraces struct {
	Traces     []NamedTrace `json:"traces"`
	Total      int64        `json:"total"`
	Pagination CursorPage   `json:"pagination"`
}

// TraceNames is the answer to GET /api/v1/traces/names.
type TraceNames struct {
	Names      []TraceName `json:"trace_names"`
	Total      int64       `json:"total"`
	Pagination OffsetPage  `json:"pagination"`
}

// TraceName is a name that traces have.
type TraceName struct {
	Name     Name      `json:"trace_name"`
	Traces   int64     `json:"trace_count"`
	Messages int64     `json:"message_count"`
	LastSeen time.Time `json:"last_seen"`
}
