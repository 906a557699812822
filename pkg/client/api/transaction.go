package api

// The types of an Operation.
const (
	PushOperation = "push"
	AckOperation  = "ack"
)

// Transaction is the body of POST /api/v1/transaction.
type Transaction struct {
	Operations []Operation `json:"operations"` // At most 100,000 operations. Each pushed item counts as one.
	// The `leaseId` of each delivery that the transaction acknowledges. Each must be live.
	RequiredLeases []string `json:"requiredLeases,omitzero"`
}

// Operation is an acknowledgment, or a push of some items.
type Operation struct {
	Type string `json:"type"` // `push` or `ack`.
	*Ack
	Items []PushItem `json:"items,omitzero"` // Items as in a push.
}

// TransactionResult is the answer to a transaction.
type TransactionResult struct {
	TransactionID string `json:"transactionId"`
	Success       bool   `json:"success"`        // If it is false, nothing was applied.
	Error         string `json:"error,omitzero"` // The reason why nothing was applied. Absent if the transaction was applied.
	// One element for each operation. Each pushed item has its own element. Empty if the type of an operation is unknown.
	Results []OperationResult `json:"results"`
}

// OperationResult is what became of an operation.
type OperationResult struct {
	Index         int    `json:"index"`
	Type          string `json:"type"`
	Success       bool   `json:"success"`
	TransactionID string `json:"transactionId"`
	Error         string `json:"error,omitzero"`     // Why the operation was not applied. null or absent if it was.
	DeadLetter    *bool  `json:"dlq,omitzero"`       // The message became a dead letter. Only for an acknowledgment.
	MessageID     ID     `json:"messageId,omitzero"` // Only for a push that was applied, and so are the next two.
	PartitionID   ID     `json:"partitionId,omitzero"`
	Queue         Name   `json:"queueName,omitzero"`
	// The unknown members of the item that resemble known ones, and were ignored. Only for a push. Absent without any.
	Warnings []string `json:"warnings,omitzero"`
}
