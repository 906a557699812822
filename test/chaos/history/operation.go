// Package history records what clients of Belfry did and what they were told.
// A workload writes one down through a Recorder, a file keeps it as JSON lines,
// and a checker (test/chaos/check) judges it. It knows nothing of HTTP or SQL,
// so that every client can use it.
package history

import (
	"encoding/json"
	"fmt"
	"time"
)

// Kind says what an operation was.
type Kind string

// The kinds of operations.
const (
	Push   Kind = "push"
	Pop    Kind = "pop"
	Ack    Kind = "ack"
	Extend Kind = "extend"
	// A consumer in SQL waits to be told, from when it has asked for that; Done: it was.
	Await   Kind = "await"
	Seek    Kind = "seek"
	Redrive Kind = "redrive"
	// A message is deleted by its name, a queue and a group with all they have.
	DeleteMessage Kind = "delete"
	DeleteQueue   Kind = "delete-queue"
	DeleteGroup   Kind = "delete-group"
)

// Where a seek goes, unless to an instant.
const (
	ToBeginning = "beginning"
	ToEnd       = "end"
)

// Outcome is what the client knows of an operation.
type Outcome string

// The outcomes. An answer that leaves open what happened is Unknown, whatever
// its status: a 503 because the database was away after a push was sent is.
const (
	Done    Outcome = "done"    // answered with success
	Refused Outcome = "refused" // answered with an error that says that nothing was done
	Unknown Outcome = "unknown" // no answer, or an error that leaves it open: it may have happened
)

// Operation is one request of one client, from just before it was sent to just
// after its answer came, by the clock of the recording process (monotonic).
type Operation struct {
	ID     int64  `json:"id"`
	Client string `json:"client"`
	Kind   Kind   `json:"kind"`
	// Begin and End count from the beginning of the history. In JSON they are
	// begin and end, in nanoseconds.
	Begin, End time.Duration `json:"-"`
	Outcome    Outcome       `json:"outcome"`
	Error      string        `json:"error,omitempty"`
	Queue      string        `json:"queue"`
	// Partition is the one a pop asked for by name, or a seek moved in; empty:
	// any, or all of them.
	Partition string `json:"partition,omitempty"`
	Group     string `json:"group,omitempty"`
	// LeaseID of what a pop delivered, or that an ack, an extend or a transaction
	// named.
	LeaseID string `json:"leaseId,omitempty"`
	// Transaction is on a push and an ack that are the two parts of one request,
	// which are applied together or not at all, or on an ack that is a request of
	// its own kind, all of which is applied or nothing. A repetition of it is another
	// two (or one), with the same Transaction.
	Transaction string `json:"transaction,omitempty"`
	AutoAck     bool   `json:"autoAck,omitempty"`
	// Inbox: a push that was written by SQL. Its answer says that it will be stored,
	// and not where.
	Inbox bool `json:"inbox,omitempty"`
	// Wait is how long a pop was ready to wait; 0: not at all. In JSON it is in
	// nanoseconds too.
	Wait time.Duration `json:"wait,omitempty"`
	// Place is where a seek goes: ToBeginning, ToEnd, or behind what was stored until
	// an instant (RFC 3339, by the database's clock).
	Place string `json:"place,omitempty"`
	Items []Item `json:"items,omitempty"`
}

// Item is a message of an operation.
type Item struct {
	Partition     string `json:"partition"`
	TransactionID string `json:"transactionId"`
	// MessageID as the server told it: of a push's answer or a delivery.
	MessageID string `json:"messageId,omitempty"`
	// Delay is how long after the push the message may be delivered first. In JSON it
	// is in nanoseconds.
	Delay time.Duration `json:"delay,omitempty"`
	// Duplicate: the push's answer said so.
	Duplicate bool `json:"duplicate,omitempty"`
	// Status is what an ack reported (completed, failed, retry), and Accepted
	// and DeadLettered what the answer said of it. Accepted on a deletion: the message
	// was there.
	Status       string `json:"status,omitempty"`
	Accepted     bool   `json:"accepted,omitempty"`
	DeadLettered bool   `json:"deadLettered,omitempty"`
}

// plain is an Operation without its methods.
type plain Operation

// timed is an Operation as JSON has it.
type timed struct {
	plain
	Begin time.Duration `json:"begin"`
	End   time.Duration `json:"end"`
}

// MarshalJSON writes Begin and End as nanoseconds.
func (o Operation) MarshalJSON() ([]byte, error) {
	return json.Marshal(timed{plain(o), o.Begin, o.End})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (o *Operation) UnmarshalJSON(text []byte) error {
	var t timed
	if err := json.Unmarshal(text, &t); err != nil {
		return fmt.Errorf("reading an operation: %w", err)
	}
	*o = Operation(t.plain)
	o.Begin, o.End = t.Begin, t.End
	return nil
}
