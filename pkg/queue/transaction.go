package queue

// MaxOperations bounds the operations of a transaction; each pushed item is one.
const MaxOperations = 10_000

// Transaction is a number of pushes and acks that are applied together or not at
// all.
type Transaction struct {
	// Operations are at least one and at most MaxOperations.
	Operations []Operation
	// RequiredLeases must all be live when it commits; see store.Transact.
	RequiredLeases []string
}

// Operation is one step of a transaction: one of the two is not nil.
type Operation struct {
	Push *PushItem
	Ack  *AckItem
}

// TransactionResult says what became of a transaction.
type TransactionResult struct {
	// Applied: everything was done; else nothing was, and Error says why.
	Applied bool
	Error   string
	// Operations are in the order of the transaction's.
	Operations []OperationResult
}

// OperationResult says what became of one Operation, in the field of its kind.
type OperationResult struct {
	Push *PushResult
	Ack  *AckResult
	// Error says, of an operation that stood in the way of the transaction, why;
	// empty of the others.
	Error string
}
