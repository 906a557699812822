package api

// The types of an Operation.
const (
	PushOperation = "push"
	AckOperation  = "ack"
)

// Transaction is the body of POST /api/v1/transaction.
type Transaction struct {
	// At most 100,000 operations. Each pushed item counts as one.
	Operations []Operation `json:"operations"`
	// The `leaseId` of each delivery that the transaction acknowledges. Each must be live.
	RequiredLeases []string `json:"requiredLeases,omitzero"`
}

// Operation is an acknowledgment, or a push of some items.
type Operation struct {
	// `push` or `ack`.
	Type string `json:"type"`
	*Ack
	// Items as in a push.
	Items []PushItem `json:"items,omitzero"`
}

// TransactionResult is the answer to a transaction.
type TransactionResult struct {
	TransactionID string `json:"transactionId"`
	// If it is false, nothing was applied.
	Success bool `json:"success"`
	// The reason why nothing was applied. Absent if the transaction was applied.
	Error string `json:"error,omitzero"`
	// One element for each operation. Each pushed item has its own element. Empty if the type of an operation is unknown.
	Results []OperationResult `json:"results"`
}

// OperationResult is what became of an operation.
type OperationResult struct {
	Index         int    `json:"index"`
	Type          string `json:"type"`
	Success       bool   `json:"success"`
	TransactionID string `json:"transactionId"`
	// Why the operation was not applied. null or absent if it was.
	Error string `json:"error,omitzero"`
	// The message became a dead letter. Only for an acknowledgment.
	DeadLetter *bool `json:"dlq,omitzero"`
	// Only for a push that was applied, and so are the next two.
	MessageID   ID   `json:"messageId,omitzero"`
	PartitionID ID   `json:"partitionId,omitzero"`
	Queue       Name `json:"queueName,omitzero"`
	// The unknown members of the item that resemble known ones, and were ignored. Only for a push. Absent without any.
	Warnings []string `json:"warnings,omitzero"`
}
