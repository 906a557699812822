package api

// The types of operations.
const (
	PushOperation = "push"
	AckOperation  = "ack"
)

// Transaction is the body of POST /api/v1/transaction.
type Transaction struct {
	Operations []Operation `json:"operations"` // At most 100,000 operations. Each pushed item counts as an operation.
	// The `leaseId` of each delivery that the transaction acknowledges. Each lease must be live.
	RequiredLeases []string `json:"requiredLeases,omitzero"`
}

// Operation is an acknowledgment, or a push of some items.
type Operation struct {
	Type string `json:"type"` // `push` or `ack`.
	*Ack
	Items []PushItem `json:"items,omitzero"` // The items of a push.
}

// TransactionResult is the answer to a transaction.
type TransactionResult struct {
	TransactionID string `json:"transactionId"`
	Success       bool   `json:"success"`        // If it is false, nothing was applied.
	Error         string `json:"error,omitzero"` // The reason why nothing was applied. Absent if the transaction was applied.
	// One element for each acknowledgment and each pushed item. Empty if the type of an operation is unknown.
	Results []OperationResult `json:"results"`
}

// OperationResult is the result of an operation.
type OperationResult struct {
	Index         int    `json:"index"`
	Type          string `json:"type"`
	Success       bool   `json:"success"`
	TransactionID string `json:"transactionId"`
	Error         string `json:"error,omitzero"` // Why the operation was not applied. null or absent if the operation was applied.
	DeadLetter    *bool  `json:"dlq,omitzero"`   // The message became a dead letter. Present only for an acknowledgment.
	// What happened to a failed message without a retry left: `blocked` or `skipped`. Absent otherwise.
	Exhausted   Exhausted `json:"exhausted,omitzero"`
	MessageID   ID        `json:"messageId,omitzero"`   // Present only for a push that was applied.
	PartitionID ID        `json:"partitionId,omitzero"` // Present only for a push that was applied.
	Queue       Name      `json:"queueName,omitzero"`   // Present only for a push that was applied.
	// The unknown members of the item that resemble known members. The server ignored them. Present only for a push with
	// such members.
	Warnings []string `json:"warnings,omitzero"`
}
