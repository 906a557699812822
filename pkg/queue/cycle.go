package queue

import (
	"encoding/json"
	"fmt"
)

// MaxStateKeyBytes is the greatest length of a key of the state of a stream.
const MaxStateKeyBytes = 1024

// Cycle is what makes a transaction a cycle of a stream: it also changes the state of a query in one
// partition. See store.Transact.
type Cycle struct {
	// Query is the id of the query, and Partition the id of the partition, as the client sent it.
	Query     ID
	Partition string
	// Changes are the changes of the state, in order.
	Changes []StateChange
	// ReleaseLease: the ack of the cycle ends the lease, also if the lease has more messages.
	ReleaseLease bool
}

// StateChange is the change of one key.
type StateChange struct {
	Key string
	// Value is a JSON value, which is stored as it is. Nil: the key is deleted.
	Value json.RawMessage
	// WindowEnd is the windowEnd of the value; nil: it has none.
	WindowEnd *float64
}

// UnknownQuery returns the error for the id of a query that does not exist.
func UnknownQuery(id string) *Error {
	return &Error{Code: CodeNotFound, Message: fmt.Sprintf("Unknown query_id %q: register the query with POST /streams/v1/queries", id)}
}
