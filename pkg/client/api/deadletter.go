package api

import (
	"encoding/json"
	"time"
)

// DeadLetter is a message that the server has stopped delivering to a group.
type DeadLetter struct {
	ID            *ID               `json:"id"` // The id of the message. null when the message was deleted.
	TransactionID *string           `json:"transactionId"`
	PartitionID   ID                `json:"partitionId"`
	Queue         Name              `json:"queue"`
	Partition     Name              `json:"partition"`
	ConsumerGroup Name              `json:"consumerGroup"`
	ErrorMessage  string            `json:"errorMessage"`       // The error text of the acknowledgment.
	RetryCount    int64             `json:"retryCount"`         // The number of failures before the last failure.
	Data          json.RawMessage   `json:"data"`               // The payload as pushed.
	DataError     string            `json:"dataError,omitzero"` // Why the payload cannot be shown.
	ProducerSub   *string           `json:"producerSub"`
	Headers       map[string]string `json:"headers,omitzero"` // The headers of the message. Absent if it has none.
	CreatedAt     *time.Time        `json:"createdAt"`
	FailedAt      time.Time         `json:"failedAt"`
}

// DeadLetters is the answer to GET /api/v1/dlq.
type DeadLetters struct {
	Messages   []DeadLetter `json:"messages"`
	Total      int64        `json:"total"`
	Pagination CursorPage   `json:"pagination"`
}

// DeadLetterSummary is the answer to GET /api/v1/dlq/summary.
type DeadLetterSummary struct {
	// All dead letters of the queue, of the group, or of all queues that the caller may see. null with another filter.
	Total      *int64                `json:"total"`
	CountedAt  *time.Time            `json:"countedAt"` // The instant at which `total` was counted. null without it.
	Examined   int64                 `json:"examined"`
	Matched    int64                 `json:"matched"` // The number of examined dead letters that match.
	Next       *string               `json:"next"`    // The cursor that continues after the examined dead letters. null if all were examined.
	Shapes     []DeadLetterShape     `json:"shapes"`
	Errors     []DeadLetterError     `json:"errors"`
	Partitions []DeadLetterPartition `json:"partitions"`
	Messages   []DeadLetter          `json:"messages"`
	Pagination Page                  `json:"pagination"`
}

// DeadLetterShape counts the dead letters whose errors have the same shape. Errors with the same shape differ only in numbers, ids
// and quoted texts.
type DeadLetterShape struct {
	Queue         Name      `json:"queue"`
	ConsumerGroup Name      `json:"consumerGroup"`
	ErrorShape    string    `json:"errorShape"` // The error with a mark for each number (#), id, hexadecimal number and quoted text.
	Example       string    `json:"example"`    // The first 200 characters of one of the errors.
	Texts         int64     `json:"texts"`      // The number of different errors with this shape.
	Count         int64     `json:"count"`
	Oldest        time.Time `json:"oldest"` // When the first of these dead letters failed.
	Newest        time.Time `json:"newest"` // When the last of these dead letters failed.
}

// DeadLetterError counts the dead letters with the same error.
type DeadLetterError struct {
	Queue         Name      `json:"queue"`
	ConsumerGroup Name      `json:"consumerGroup"`
	ErrorMessage  string    `json:"errorMessage"` // The first 200 characters of the error.
	Count         int64     `json:"count"`
	Oldest        time.Time `json:"oldest"` // When the first of these dead letters failed.
	Newest        time.Time `json:"newest"` // When the last of these dead letters failed.
}

// DeadLetterPartition counts the dead letters of a partition.
type DeadLetterPartition struct {
	Queue         Name      `json:"queue"`
	ConsumerGroup Name      `json:"consumerGroup"`
	Partition     Name      `json:"partition"`
	PartitionID   ID        `json:"partitionId"`
	Count         int64     `json:"count"`
	Oldest        time.Time `json:"oldest"` // When the first of these dead letters failed.
	Newest        time.Time `json:"newest"` // When the last of these dead letters failed.
}
