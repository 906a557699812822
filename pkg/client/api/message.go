package api

import (
	"encoding/json"
	"time"
)

// MessageRef names a message.
type MessageRef struct {
	ID            ID     `json:"id"`
	TransactionID string `json:"transactionId"`
	PartitionID   ID     `json:"partitionId"`
	QueuePath     string `json:"queuePath"` // Queue and partition, separated by a slash.
	Queue         Name   `json:"queue"`
	Partition     Name   `json:"partition"`
}

// ListedMessage is a message without its payload.
type ListedMessage struct {
	MessageRef
	Namespace Name   `json:"namespace"`
	Task      Name   `json:"task"`
	Status    string `json:"status"`
	// The status for the reader without a group. `pending` when no such reader exists.
	QueueStatus *string   `json:"queueStatus"`
	BusStatus   BusStatus `json:"busStatus"`
	TraceID     *ID       `json:"traceId"`
	ProducerSub *string   `json:"producerSub"`
	// The headers. Absent if the message has none.
	Headers       map[string]string `json:"headers,omitzero"`
	QueuePriority int               `json:"queuePriority"`
	CreatedAt     time.Time         `json:"createdAt"`
	// No pop returns the message before this instant. Absent if the message has no delay.
	VisibleAt      time.Time  `json:"visibleAt,omitzero"`
	LeaseExpiresAt *time.Time `json:"leaseExpiresAt"`
}

// BusStatus counts the groups of a message.
type BusStatus struct {
	ConsumedBy  int64 `json:"consumedBy"` // Groups that have consumed the message.
	TotalGroups int64 `json:"totalGroups"`
}

// Messages is the answer to GET /api/v1/messages.
type Messages struct {
	Messages   []ListedMessage `json:"messages"`
	Mode       MessageMode     `json:"mode"` // The readers of the listed queues.
	Pagination MessagePage     `json:"pagination"`
}

// MessageMode says which kinds of readers the queues have: the reader without a group, and groups.
type MessageMode struct {
	HasQueueMode   bool   `json:"hasQueueMode"`
	BusGroupsCount int64  `json:"busGroupsCount"`
	Type           string `json:"type"`
}

// MessagePage describes a page of a list of messages.
type MessagePage struct {
	CursorPage
	// The cursor of the next partitions. Absent if the request has no `partitions`, and after the last partitions.
	NextPartitions string `json:"nextPartitions,omitzero"`
}

// StoredMessage is the answer to GET /api/v1/messages/{partitionId}/{transactionId}.
type StoredMessage struct {
	ListedMessage
	Payload        json.RawMessage `json:"payload"`               // The payload as pushed, without white space between tokens.
	PayloadError   string          `json:"payloadError,omitzero"` // Why the payload cannot be shown.
	IsEncrypted    bool            `json:"isEncrypted"`
	ErrorMessage   *string         `json:"errorMessage"` // The error of the newest failure.
	RetryCount     int64           `json:"retryCount"`
	QueueConfig    MessageQueue    `json:"queueConfig"`
	Mode           StoredMode      `json:"mode"`
	ConsumerGroups []MessageGroup  `json:"consumerGroups"`
}

// MessageQueue has some options of the queue of a message.
type MessageQueue struct {
	LeaseTime  int64 `json:"leaseTime"`
	RetryLimit int64 `json:"retryLimit"`
	RetryDelay int64 `json:"retryDelay"`
	TTL        int64 `json:"ttl"`
	Priority   int   `json:"priority"`
}

// StoredMode says which readers a message has.
type StoredMode struct {
	MessageMode
	ConsumedByGroups int64 `json:"consumedByGroups"`
}

// MessageGroup is a group that reads the queue of a message.
type MessageGroup struct {
	Name           Name       `json:"name"`
	Consumed       bool       `json:"consumed"`
	LeaseExpiresAt *time.Time `json:"leaseExpiresAt"`
}

// QueueMessage is an element of the answer to GET /api/v1/status/queues/{queue}/messages.
type QueueMessage struct {
	MessageRef
	Status    string    `json:"status"`
	CreatedAt time.Time `json:"createdAt"`
}
