package api

import "time"

// BlockedPartitions is the answer to GET /api/v1/consumer-groups/{group}/queues/{queue}/blocked.
type BlockedPartitions struct {
	Queue      Name               `json:"queueName"`
	Group      Name               `json:"consumerGroup"`
	Partitions []BlockedPartition `json:"partitions"`
	Pagination Page               `json:"pagination"`
}

// BlockedPartition is a partition that stops before a message without a retry left, until an operator decides.
type BlockedPartition struct {
	Partition     Name       `json:"partitionName"`
	PartitionID   string     `json:"partitionId"`
	MessageID     *string    `json:"messageId"`     // null if the message was deleted.
	TransactionID *string    `json:"transactionId"` // null if the message was deleted.
	CreatedAt     *time.Time `json:"createdAt"`     // When the message was stored. null if the message was deleted.
	Failures      int64      `json:"failures"`      // The failed acknowledgments of the message.
	Deliveries    int64      `json:"deliveries"`    // The deliveries of the message.
	Waiting       int64      `json:"waiting"`       // The unfinished messages of the partition, with the first.
	// The error of the last failed attempt. null if the attempt had no error, or is no longer stored.
	Error *string `json:"error"`
	// When the last attempt failed. null if the attempt is no longer stored.
	BlockedAt *time.Time `json:"blockedAt"`
}

// Unblock is the body of POST /api/v1/consumer-groups/{group}/queues/{queue}/partitions/{partition}/unblock.
type Unblock struct {
	// `retry` delivers the message at once, and its failures count from 0. `deadLetter` makes the message a dead letter with its last
	// error. `skip` counts the message as done.
	Action string `json:"action"`
}

// Unblocked is the answer when a partition was unblocked.
type Unblocked struct {
	Success       bool    `json:"success"`
	Queue         Name    `json:"queueName"`
	Partition     Name    `json:"partitionName"`
	Group         Name    `json:"consumerGroup"`
	Action        string  `json:"action"`
	MessageID     *string `json:"messageId"`     // The message at which the partition was blocked. null if the message was deleted.
	TransactionID *string `json:"transactionId"` // null if the message was deleted.
}
