// Package history records the operations of Belfry clients and their answers. A workload records through a Recorder, a
// file stores the history as JSON lines, and a checker (test/chaos/check) judges it. The package knows neither HTTP nor
// SQL, so that every client can use it.
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
	// Await is the wait of a consumer in SQL for its wake, after its request. Done: it was woken.
	Await   Kind = "await"
	Seek    Kind = "seek"
	Redrive Kind = "redrive"
	// Deletions of a message by name, of a queue and of a group.
	DeleteMessage Kind = "delete"
	DeleteQueue   Kind = "delete-queue"
	DeleteGroup   Kind = "delete-group"
	// Rewound is the promotion of a standby that received nothing since the begin. What was visible meanwhile and never
	// acknowledged may be gone at the end. What was acknowledged must be there. It has no queue.
	Rewound Kind = "rewound"
)

// The targets of a seek, other than an instant.
const (
	ToBeginning = "beginning"
	ToEnd       = "end"
)

// Outcome is what the client knows of an operation.
type Outcome string

// The outcomes. An answer is Unknown if it leaves the effect open, whatever its status. An example is a 503 because the
// database failed after the push was sent.
const (
	Done    Outcome = "done"    // answered with success
	Refused Outcome = "refused" // answered with an error that excludes an effect
	Unknown Outcome = "unknown" // no answer, or an error that leaves the effect open
)

// Operation is one request of one client, from just before the request until just after the answer, by the monotonic
// clock of the recording process.
type Operation struct {
	ID     int64  `json:"id"`
	Client string `json:"client"`
	Kind   Kind   `json:"kind"`
	// Begin and End count from the beginning of the history. JSON has them in nanoseconds.
	Begin, End time.Duration `json:"-"`
	Outcome    Outcome       `json:"outcome"`
	Error      string        `json:"error,omitempty"`
	Queue      string        `json:"queue"`
	// Partition is the name that a pop asked for or a seek moved in. Empty: any partition, or all.
	Partition string `json:"partition,omitempty"`
	Group     string `json:"group,omitempty"`
	// LeaseID is the lease of a delivery, or the lease that an ack, an extend or a transaction named.
	LeaseID string `json:"leaseId,omitempty"`
	// Transaction marks the operations of one request to the transaction endpoint, which is applied completely or not
	// at all: a push and an ack, or acks alone. A repetition is recorded again, with the same Transaction.
	Transaction string `json:"transaction,omitempty"`
	AutoAck     bool   `json:"autoAck,omitempty"`
	// Inbox marks a push by SQL. Its answer says that the message will be stored, but not where.
	Inbox bool `json:"inbox,omitempty"`
	// Wait is the longest wait of a pop. 0: it does not wait. JSON has it in nanoseconds.
	Wait time.Duration `json:"wait,omitempty"`
	// Target is the target of a seek: ToBeginning, ToEnd, or the position after the messages stored until an instant
	// (RFC 3339, by the clock of the database).
	Target string `json:"target,omitempty"`
	Items  []Item `json:"items,omitempty"`
}

// Item is a message of an operation.
type Item struct {
	Partition     string `json:"partition"`
	TransactionID string `json:"transactionId"`
	// MessageID is the id in the answer to the push or in the delivery.
	MessageID string `json:"messageId,omitempty"`
	// Delay is the earliest time of the delivery after the push. JSON has it in nanoseconds.
	Delay time.Duration `json:"delay,omitempty"`
	// Duplicate is from the answer to the push.
	Duplicate bool `json:"duplicate,omitempty"`
	// Status is the status of an ack (completed, failed, retry). Accepted and DeadLettered are from its answer. On a
	// deletion, Accepted says that the message existed.
	Status       string `json:"status,omitempty"`
	Accepted     bool   `json:"accepted,omitempty"`
	DeadLettered bool   `json:"deadLettered,omitempty"`
}

// plain is an Operation without its methods.
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
