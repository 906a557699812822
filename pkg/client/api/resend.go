package api

import (
	"encoding/json"
	"time"
)

// MessageAttempts is the answer to GET /api/v1/messages/{partitionId}/{transactionId}/attempts.
type MessageAttempts struct {
	Attempts []FailedAttempt `json:"attempts"` // The newest first. A message keeps 20 for each group.
	Resent   []Resent        `json:"resent"`   // The messages that were sent again from this message, the newest first.
}

// FailedAttempt is a delivery of a message to a group that failed.
type FailedAttempt struct {
	ConsumerGroup Name       `json:"consumerGroup"`
	Number        int64      `json:"number"`      // Counts the failed attempts of the message for the group, from 1.
	DeliveredAt   *time.Time `json:"deliveredAt"` // The begin of the lease. null if it is unknown.
	FailedAt      time.Time  `json:"failedAt"`    // When the acknowledgment was applied, or when the lease ended.
	Result        string     `json:"result"`      // `failed`, `retry` or `dlq` as in the acknowledgment, or `lease_expired`.
	Error         *string    `json:"error"`       // The first 1,000 characters of the error.
	Consumer      *string    `json:"consumer"`    // Who sent the acknowledgment. null if it is unknown.
	Instance      *string    `json:"instance"`    // The host and port of the instance that applied the acknowledgment.
}

// Resent is a message that was sent again from another message.
type Resent struct {
	ID            ID        `json:"id"`
	Queue         Name      `json:"queue"`
	Partition     Name      `json:"partition"`
	PartitionID   *ID       `json:"partitionId"` // null if the partition is deleted.
	TransactionID string    `json:"transactionId"`
	SentAt        time.Time `json:"sentAt"`
	SentBy        *string   `json:"sentBy"` // The subject of the token, or the address.
}

// Resend is the body of POST /api/v1/messages/{partitionId}/{transactionId}/resend.
type Resend struct {
	Queue     *Name `json:"queue,omitzero"`     // Absent means the queue of the old message.
	Partition *Name `json:"partition,omitzero"` // Absent means the name of the old partition.
	// Absent means the payload of the old message.
	Payload json.RawMessage `json:"payload,omitzero"`
	// Absent means the headers of the old message. An empty object means no headers.
	Headers map[string]string `json:"headers,omitzero"`
	// The id of the new message. Send the same id again to repeat a request without a second message.
	TransactionID *string `json:"transactionId,omitzero"`
	// Delete the dead letters of the old message in the same transaction.
	Remove bool `json:"remove,omitzero"`
	// With `remove`: delete only the dead letter of this group.
	ConsumerGroup *Name `json:"consumerGroup,omitzero"`
}

// ResentMessage is the answer to POST /api/v1/messages/{partitionId}/{transactionId}/resend.
type ResentMessage struct {
	Success       bool   `json:"success"`
	ID            ID     `json:"id"` // The id of the new message.
	Queue         Name   `json:"queue"`
	Partition     Name   `json:"partition"`
	PartitionID   ID     `json:"partitionId"`
	TransactionID string `json:"transactionId"`
	Removed       int64  `json:"removed"` // The number of deleted dead letters. 0 for a repeated request.
}
