package queue

import (
	"encoding/json"
	"fmt"
)

// MaxOperations is the maximum number of operations of a transaction, and of state changes of a Cycle. Each pushed item counts as
// one operation.
const MaxOperations = 100_000

// Transaction is a list of pushes and acks that are applied together or not at
// all.
type Transaction struct {
	// Operations has 1 to MaxOperations elements. In a cycle, Operations may be empty.
	Operations []Operation
	// RequiredLeases are lease ids. The transaction is applied only if all of them
	// are live when it commits. See store.Transact.
	RequiredLeases []string
	// Cycle is set for a cycle of a stream. All acks of such a transaction are for the partition of the cycle. A push of a message
	// that is already stored is a duplicate and not a failure.
	Cycle *Cycle
	// Resend is set if the first operation pushes a message that replaces an old one.
	Resend *Resend
}

// Resend marks an old message as sent again, in the transaction that pushes the new message.
type Resend struct {
	// Partition and TransactionID name the old message.
	Partition     ID
	TransactionID string
	// Sender is empty if it is unknown.
	Sender string
	// Remove deletes the dead letters of the old message, of Group or of all groups.
	Remove bool
	Group  *string
}

// Operation is one step of a transaction. Exactly one of the fields is not nil.
type Operation struct {
	Push *PushItem
	Ack  *AckItem
}

// TransactionResult is the result of a transaction.
type TransactionResult struct {
	// Applied: all operations were done. If Applied is false, no operation was done, and Error says why.
	Applied bool
	Error   string
	// Stale: the cycle was refused, because another cycle changed the state after this cycle had read it.
	Stale bool
	// Queue is the queue of the partition of a cycle.
	Queue string
	// Operations are in the order of the transaction's operations.
	Operations []OperationResult
	// Removed is the number of dead letters that a resend deleted.
	Removed int64
}

// OperationResult is the result of one Operation. Push is set for a push, Ack for an ack.
type OperationResult struct {
	Push *PushResult
	Ack  *AckResult
	// Error is set if this operation made the transaction fail. It says why the operation failed.
	Error string
}

// MaxStateKeyBytes is the greatest length of a key of the state of a stream.
const MaxStateKeyBytes = 1024

// Cycle makes a transaction a cycle of a stream. A cycle also changes the state that a query has in one partition. See
// store.Transact.
type Cycle struct {
	// Query is the id of the query, and Partition the id of the partition, as the client sent it.
	Query     ID
	Partition string
	// Changes are the changes of the state, in order.
	Changes []StateChange
	// ReleaseLease: the ack of the cycle ends the lease, even if the lease has more messages.
	ReleaseLease bool
}

// StateChange is the change of one key.
type StateChange struct {
	Key string
	// Value is a JSON value, which is stored unchanged. Nil: the key is deleted.
	Value json.RawMessage
	// WindowEnd is the windowEnd of the value. Nil: the value has no windowEnd.
	WindowEnd *float64
}

// UnknownQuery returns the error for the id of a query that does not exist.
func UnknownQuery(id string) *Error {
	return &Error{Code: CodeNotFound, Message: fmt.Sprintf("Unknown query_id %q: register the query with POST /streams/v1/queries", id)}
}
