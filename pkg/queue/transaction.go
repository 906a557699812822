package queue

import "encoding/json"

// MaxOperations is the most operations of a transaction. Each pushed item counts
// as one operation.
const MaxOperations = 10_000

// Transaction is a list of pushes and acks that are applied together or not at
// all.
type Transaction struct {
	// Operations has 1 to MaxOperations elements.
	Operations []Operation
	// RequiredLeases are lease ids. The transaction is applied only if all of them
	// are live when it commits. See store.Transact.
	RequiredLeases []string
	// State changes the state of a stream with the operations. Nil: the transaction is not a cycle of a
	// stream. In a cycle the push of a message that is stored already is a duplicate and no failure.
	State *StateChange
}

// StateChange changes the state of a stream in a partition of its source.
type StateChange struct {
	Stream, Partition ID
	// Keys are the changed keys, each once.
	Keys []StateKey
}

// StateKey is a key of the state of a stream.
type StateKey struct {
	Key string
	// Value is a JSON value. Nil deletes the key.
	Value json.RawMessage
	// WindowEnd is the member windowEnd of Value. Nil: it has none.
	WindowEnd *float64
}

// Operation is one step of a transaction. Exactly one of the fields is not nil.
type Operation struct {
	Push *PushItem
	Ack  *AckItem
}

// TransactionResult is the result of a transaction.
type TransactionResult struct {
	// Applied: all operations were done. If false, none was done and Error says
	// why.
	Applied bool
	Error   string
	// Operations are in the order of the transaction's operations.
	Operations []OperationResult
}

// OperationResult is the result of one Operation, in the field of its kind.
type OperationResult struct {
	Push *PushResult
	Ack  *AckResult
	// Error says why this operation prevented the transaction. It is empty for
	// every other operation.
	Error string
}
