package source

import (
	"encoding/json"
	"time"
)

// Message is an element of GET /api/v1/messages.
type Message struct {
	ID, TransactionID, PartitionID string
	Queue, Partition, Status       string
	TraceID, ProducerSub           *string
	CreatedAt                      time.Time
	BusStatus                      struct{ ConsumedBy, TotalGroups int64 }
}

// Messages is GET /api/v1/messages.
type Messages struct {
	Messages   []Message
	Pagination struct {
		Next           *string
		NextPartitions string
	}
}

// StoredMessage is GET /api/v1/messages/{partitionId}/{transactionId}.
type StoredMessage struct {
	Message
	Payload        json.RawMessage
	PayloadError   string
	IsEncrypted    bool
	Mode           struct{ HasQueueMode bool }
	QueueStatus    *string
	ConsumerGroups []MessageGroup
}

// MessageGroup is a group that reads the queue of a StoredMessage.
type MessageGroup struct {
	Name     string
	Consumed bool
}

// Trace is an element of the lists of traces.
type Trace struct {
	EventType     string          `json:"event_type"`
	Data          json.RawMessage `json:"data"`
	ConsumerGroup string          `json:"consumer_group"`
	WorkerID      string          `json:"worker_id"`
	CreatedAt     time.Time       `json:"created_at"`
	Names         []string        `json:"trace_names"`
	// The others are in lists by name only.
	TransactionID string `json:"transaction_id"`
	PartitionID   string `json:"partition_id"`
	Queue         string `json:"queue_name"`
	Partition     string `json:"partition_name"`
}

// Traces is GET /api/v1/traces/{partitionId}/{transactionId} and GET /api/v1/traces/by-name/{name}.
type Traces struct {
	Traces     []Trace
	Total      int64
	Pagination struct{ Next *string }
}

// TraceNames is GET /api/v1/traces/names.
type TraceNames struct {
	Names []struct {
		Name     string    `json:"trace_name"`
		Traces   int64     `json:"trace_count"`
		Messages int64     `json:"message_count"`
		LastSeen time.Time `json:"last_seen"`
	} `json:"trace_names"`
	Total int64
}
