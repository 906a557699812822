package api

// AckStatus is the outcome of a message that a consumer reports.
type AckStatus string

// The statuses of an acknowledgment.
const (
	// Completed moves the cursor of the group to the message. All earlier messages of the partition count as done too.
	Completed AckStatus = "completed"
	// Failed ends the lease. The server delivers the message again. After retryLimit repeated deliveries, the message becomes a
	// dead letter.
	Failed AckStatus = "failed"
	// Retry ends the lease, and does not count as a failure. Without a retryAfter, the message can be delivered again at once.
	Retry AckStatus = "retry"
	// DeadLettered makes the message a dead letter.
	DeadLettered AckStatus = "dlq"
)

// Ack is an acknowledgment, and the body of POST /api/v1/ack. Message.Ack returns the Ack of a delivered message.
type Ack struct {
	TransactionID string `json:"transactionId"`
	PartitionID   string `json:"partitionId"`
	// The id of the delivery's lease. If the lease has ended, the server refuses the acknowledgment. If the id is absent or
	// empty, the server does not check the lease.
	LeaseID string `json:"leaseId,omitzero"`
	// `success`, and an absent or empty status, mean `completed`. The server refuses an item with an unknown status.
	Status AckStatus `json:"status,omitzero"`
	Error  string    `json:"error,omitzero"` // The reason of the failure. A dead letter keeps this text.
	// With the status `failed` or `retry`: the seconds until the next delivery. If it is absent, a `failed` message waits for
	// the `retryDelay` of the queue, and a `retry` message does not wait. If the items of a call have several values for one
	// partition, the longest value counts.
	RetryAfterSeconds float64 `json:"retryAfter,omitzero"`
	// With the status `retry`: the message is right, but a service that the consumer needs is down. The breaker of the group opens
	// for at least this number of seconds, more than 0 and at most 86400. The group gets no message meanwhile. The server refuses
	// the item if the group has no breaker. Then the message stays leased.
	PauseGroupSeconds float64 `json:"pauseGroup,omitzero"`
	// The consumer group. An absent or empty group means the reader without a group. A batch ignores the groups of its items.
	Group string `json:"consumerGroup,omitzero"`
}

// AckBatch is the body of POST /api/v1/ack/batch.
type AckBatch struct {
	// The group of all items. An absent or empty group means the reader without a group.
	Group string `json:"consumerGroup,omitzero"`
	Acks  []Ack  `json:"acknowledgments"`
}

// AckResult is the result of an acknowledgment. The answer has a result for each item, in the order of the request.
type AckResult struct {
	Index         int    `json:"index"` // The index of the item in the request.
	TransactionID string `json:"transactionId"`
	Success       bool   `json:"success"`
	// Why the item was refused, such as `Message not found` or `Invalid or expired lease`. null if the item was accepted.
	Error         string  `json:"error"`
	Queue         *string `json:"queueName"`     // null if the message does not exist.
	Partition     *string `json:"partitionName"` // null if the message does not exist.
	LeaseReleased bool    `json:"leaseReleased"` // After the call, the group has no lease on the partition.
	DeadLetter    bool    `json:"dlq"`           // The message became a dead letter.
	// What happened to a failed message without a retry left, if the limits of the group have another onExhausted than deadLetter:
	// `blocked` (the partition stops before the message) or `skipped`. Absent otherwise.
	Exhausted Exhausted `json:"exhausted,omitzero"`
}

// Exhausted is what happened to a failed message without a retry left.
type Exhausted string

const (
	// Blocked means that the partition stops before the message, until an operator decides.
	Blocked Exhausted = "blocked"
	// Skipped means that the group skips the message.
	Skipped Exhausted = "skipped"
)
