package api

// AckStatus says how a consumer is done with a message.
type AckStatus string

// The statuses of an acknowledgment.
const (
	// Completed moves the cursor of the group to the message. All earlier messages of the partition count as done too.
	Completed AckStatus = "completed"
	// Failed ends the lease. The message is delivered again, and after the retryLimit of the queue it is a dead letter.
	Failed AckStatus = "failed"
	// Retry is like Failed, but is not counted, and without a retryAfter the message is delivered again at once.
	Retry AckStatus = "retry"
	// DeadLettered makes the message a dead letter.
	DeadLettered AckStatus = "dlq"
)

// Ack is an acknowledgment, and the body of POST /api/v1/ack. Message.Ack makes one.
type Ack struct {
	TransactionID string `json:"transactionId"`
	PartitionID   string `json:"partitionId"`
	// The lease of the delivery. If it has ended, the acknowledgment is refused. An absent or empty lease is not checked.
	LeaseID string `json:"leaseId,omitzero"`
	// An absent or empty status means `completed`. `success` means `completed` too. An item with any other text is refused.
	Status AckStatus `json:"status,omitzero"`
	Error  string    `json:"error,omitzero"` // The reason of the failure. A dead letter keeps it.
	// With the status `failed` or `retry`: the seconds until the next delivery. Without it `failed` waits for the
	// `retryDelay` of the queue, and `retry` does not wait. If a call has several for a partition, the longest one counts.
	RetryAfterSeconds float64 `json:"retryAfter,omitzero"`
	// The consumer group. An absent or empty one is the reader without a group. A batch names the group of all its items.
	Group string `json:"consumerGroup,omitzero"`
}

// AckBatch is the body of POST /api/v1/ack/batch.
type AckBatch struct {
	// The group of all items. An absent or empty one is the reader without a group.
	Group string `json:"consumerGroup,omitzero"`
	Acks  []Ack  `json:"acknowledgments"`
}

// AckResult is what became of an acknowledgment. The answer has one for each item, in the order of the request.
type AckResult struct {
	Index         int    `json:"index"` // The index of the item in the request.
	TransactionID string `json:"transactionId"`
	Success       bool   `json:"success"`
	// Why the item was refused, such as `Message not found` or `Invalid or expired lease`. null if it was not.
	Error         string  `json:"error"`
	Queue         *string `json:"queueName"` // null if the message does not exist, and so are the next two.
	Partition     *string `json:"partitionName"`
	LeaseReleased bool    `json:"leaseReleased"` // The group holds no lease on the partition any more.
	DeadLetter    bool    `json:"dlq"`           // The message became a dead letter.
}
