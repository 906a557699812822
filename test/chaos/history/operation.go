// Package history records the operations of Belfry clients and their answers. A workload records with a Recorder, a
// file stores the history as JSON lines, and a checker (test/chaos/check) checks the history. The package uses
// neither HTTP nor SQL, so that every client can use it.
package history

import (
	"encoding/json"
	"fmt"
	"time"
)

// Kind is the kind of an operation.
type Kind string

// The kinds of operations.
const (
	Push   Kind = "push"
	Pop    Kind = "pop"
	Ack    Kind = "ack"
	Extend Kind = "extend"
	// Await is the wait of a consumer in SQL for its wake, after the request for it. Done means that the consumer was
	// woken.
	Await   Kind = "await"
	Seek    Kind = "seek"
	Redrive Kind = "redrive"
	// These kinds are the deletions of a message by name, of a queue and of a group.
	DeleteMessage Kind = "delete"
	DeleteQueue   Kind = "delete-queue"
	DeleteGroup   Kind = "delete-group"
	// Rewound is the promotion of a standby that received nothing since Begin. Changes that were visible between
	// Begin and End may be lost if they were never acknowledged. Acknowledged changes must exist. A Rewound operation
	// has no queue.
	Rewound Kind = "rewound"
)

// The targets of a seek other than a time.
const (
	ToBeginning = "beginning"
	ToEnd       = "end"
)

// Outcome is the knowledge of the client about the effect of an operation.
type Outcome string

// These constants are the outcomes. An answer is Unknown if it leaves the effect open, for example a 503 because the
// database failed after the push was sent.
const (
	Done    Outcome = "done"    // answered with success
	Refused Outcome = "refused" // answered with an error that excludes an effect
	Unknown Outcome = "unknown" // no answer, or an error that leaves the effect open
)

// Operation is one request of one client. It lasts from just before the request until just after the answer, by the
// monotonic clock of the recording process.
type Operation struct {
	ID     int64  `json:"id"`
	Client string `json:"client"`
	Kind   Kind   `json:"kind"`
	// Begin and End are the times since the start of the history. The JSON form has nanoseconds.
	Begin, End time.Duration `json:"-"`
	Outcome    Outcome       `json:"outcome"`
	Error      string        `json:"error,omitempty"`
	Queue      string        `json:"queue"`
	// Partition is the name in a pop or a seek. It is empty for any partition, or for all partitions.
	Partition string `json:"partition,omitempty"`
	Group     string `json:"group,omitempty"`
	// LeaseID is the lease of a delivery, or the lease in an ack, an extend or a transaction.
	LeaseID string `json:"leaseId,omitempty"`
	// Transaction is the same for all operations of one request to the transaction endpoint: a push and an ack, or
	// only acks. The server applies all or none of them. A repetition of the request is recorded again, with the same
	// Transaction.
	Transaction string `json:"transaction,omitempty"`
	AutoAck     bool   `json:"autoAck,omitempty"`
	// Inbox marks a push by SQL. Its answer says that the message will be stored, but not where.
	Inbox bool `json:"inbox,omitempty"`
	// Wait is the maximum wait of a pop. 0 means that the pop does not wait. The JSON form has nanoseconds.
	Wait time.Duration `json:"wait,omitempty"`
	// Target is the target of a seek: ToBeginning, ToEnd, or a time (RFC 3339, by the clock of the database). A time
	// means the position after the messages stored until that time.
	Target string `json:"target,omitempty"`
	Items  []Item `json:"items,omitempty"`
}

// Item is a message of an operation.
type Item struct {
	Partition     string `json:"partition"`
	TransactionID string `json:"transactionId"`
	// MessageID is the id in the answer to the push or in the delivery.
	MessageID string `json:"messageId,omitempty"`
	// Delay is the minimum time from the push to the delivery. The JSON form has nanoseconds.
	Delay time.Duration `json:"delay,omitempty"`
	// Duplicate is from the answer to the push: the message was already stored.
	Duplicate bool `json:"duplicate,omitempty"`
	// Status is the status of an ack (completed, failed, retry). Accepted and DeadLettered are from the answer to the
	// ack. For a deletion, Accepted means that the message existed.
	Status       string `json:"status,omitempty"`
	Accepted     bool   `json:"accepted,omitempty"`
	DeadLettered bool   `json:"deadLettered,omitempty"`
}

// plain is an Operation without methods.
type plain Operation

// timed is the JSON form of an Operation.
type timed struct {
	plain
	Begin time.Duration `json:"begin"`
	End   time.Duration `json:"end"`
}

// MarshalJSON writes Begin and End as nanoseconds.
func (o Operation) MarshalJSON() ([]byte, error) {
	return json.Marshal(timed{plain(o), o.Begin, o.End})
}

// UnmarshalJSON reads the output of MarshalJSON.
func (o *Operation) UnmarshalJSON(text []byte) error {
	var t timed
	if err := json.Unmarshal(text, &t); err != nil {
		return fmt.Errorf("reading an operation: %w", err)
	}
	*o = Operation(t.plain)
	o.Begin, o.End = t.Begin, t.End
	return nil
}
