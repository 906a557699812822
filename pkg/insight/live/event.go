package live

import (
	"encoding/json"
	"time"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// Type says what happened.
type Type string

// The types. Each says the type of Event.Data in brackets; without brackets it is nil.
const (
	// TypeSnapshot [Snapshot] is the first event of a watcher, and the first one after a gap.
	TypeSnapshot Type = "snapshot"
	// TypeRates [Rates] are the figures of one instance over the last second.
	TypeRates Type = "rates"

	TypeQueueCreated Type = "queue.created"
	TypeQueueChanged Type = "queue.changed"
	TypeQueuePaused  Type = "queue.paused" // with Partition: only that partition
	TypeQueueResumed Type = "queue.resumed"
	TypeQueueDeleted Type = "queue.deleted"
	TypeGroupCreated Type = "group.created" // with Partition: for that partition
	TypeGroupChanged Type = "group.changed"
	TypeGroupPaused  Type = "group.paused"
	TypeGroupResumed Type = "group.resumed"
	TypeGroupDeleted Type = "group.deleted" // without Queue: in all queues
	TypeGroupSeeked  Type = "group.seeked"

	TypeLag         Type = "lag"          // [Lag]
	TypeDeadLetters Type = "dead_letters" // [DeadLetters]
	TypeListener    Type = "listener"     // [Listener]
	TypeInstance    Type = "instance"     // [InstanceChange]
	TypeSweep       Type = "sweep"        // [Sweep]
	TypeSequencer   Type = "sequencer"    // [Sequencer]
	TypeMaintenance Type = "maintenance"  // [Maintenance]
	TypeAudit       Type = "audit"        // [Audit]

	// TypeDropped [Dropped] says that events are missing here.
	TypeDropped Type = "dropped"
	// TypeClosing [Closing] is the last event.
	TypeClosing Type = "closing"
)

// Event is one thing that happened. It must not be changed, because watchers share it.
type Event struct {
	// ID orders the events of one process. It is empty for an event that only one watcher gets.
	ID   string
	Type Type
	At   time.Time
	// Instance is where it happened. It is zero for what is not of one instance.
	Instance queue.ID
	// Queue, Partition and Group are empty if they do not apply.
	Queue, Partition, Group string
	Data                    any
}

// Instance describes a running process.
type Instance struct {
	ID   queue.ID `json:"id"`
	Host string   `json:"host"`
	// Listener is the state of its listener; see pkg/postgres/listen.
	Listener string `json:"listener"`
	// Sequencer: it moves the rows of the inbox.
	Sequencer bool `json:"sequencer"`
	// Waiting counts its waiting requests.
	Waiting int `json:"waiting"`
	// UptimeSeconds is how long it runs.
	UptimeSeconds int64 `json:"uptimeSeconds"`
}

// QueueRates are the figures of one queue at one instance: messages a second, and waiting requests now.
type QueueRates struct {
	Queue     string  `json:"queue"`
	Pushed    float64 `json:"pushed"`
	Delivered float64 `json:"delivered"`
	Acked     float64 `json:"acked"`
	// Failed counts acknowledgments that failed, and messages that became dead letters.
	Failed  float64 `json:"failed"`
	Waiting int     `json:"waiting"`
}

// Rates are the figures of one instance. A queue that is missing was idle, and its waiting requests are
// as many as they were.
type Rates struct {
	// Instance is nil if the watcher may not see it.
	Instance *Instance `json:"instance,omitempty"`
	// Seconds is the time that the figures cover.
	Seconds float64 `json:"seconds"`
	// Queues are the busiest first.
	Queues []QueueRates `json:"queues"`
	// Omitted counts further busy queues.
	Omitted int `json:"omitted"`
}

// QueueWaiting counts the waiting requests of a queue at the instance of the watcher.
type QueueWaiting struct {
	Queue   string `json:"queue"`
	Waiting int    `json:"waiting"`
}

// Lag says that a group is further behind than the threshold, or no longer.
type Lag struct {
	Queue  string `json:"queue"`
	Group  string `json:"group"`
	Beyond bool   `json:"beyond"`
	// Seconds is the age of the oldest message that the group has not finished; 0: none.
	Seconds float64 `json:"seconds"`
	// ThresholdSeconds is live.lag_threshold.
	ThresholdSeconds float64 `json:"thresholdSeconds"`
}

// DeadLetters says that a group has at least as many dead letters as the threshold, or no longer.
type DeadLetters struct {
	Queue  string `json:"queue"`
	Group  string `json:"group"`
	Beyond bool   `json:"beyond"`
	// Threshold is live.dead_letters_threshold.
	Threshold int `json:"threshold"`
}

// Snapshot is what is known at the start of a stream. It is from memory, except that the first watcher
// of an instance waits for one read of Lag and DeadLetters.
type Snapshot struct {
	Instances   []Instance     `json:"instances"`
	Queues      []QueueWaiting `json:"queues"`
	Lag         []Lag          `json:"lag"`
	DeadLetters []DeadLetters  `json:"deadLetters"`
	Maintenance *Maintenance   `json:"maintenance,omitempty"`
}

// Listener is a change of the state of a listener.
type Listener struct {
	State string `json:"state"`
}

// InstanceChange says that another instance was heard first, or left.
type InstanceChange struct {
	// State is joined or left.
	State string `json:"state"`
	Host  string `json:"host"`
}

// Sweep is what sweeps deleted of a queue in the last second.
type Sweep struct {
	Retention  int64 `json:"retention"`
	Completed  int64 `json:"completed"`
	Evicted    int64 `json:"evicted"`
	Partitions int64 `json:"partitions"`
}

// Sequencer says that the instance became the sequencer of the inbox, or stopped being it.
type Sequencer struct {
	Leading bool `json:"leading"`
}

// Maintenance are the switches.
type Maintenance struct {
	Push bool `json:"push"`
	Pop  bool `json:"pop"`
}

// Audit is a row of the audit; see pkg/access/audit.
type Audit struct {
	ID            queue.ID        `json:"id"`
	Subject       string          `json:"subject"`
	TokenID       string          `json:"tokenId"`
	Address       string          `json:"address"`
	RequestID     string          `json:"requestId"`
	Action        string          `json:"action"`
	TransactionID string          `json:"transactionId"`
	Parameters    json.RawMessage `json:"parameters"`
	Counts        json.RawMessage `json:"counts"`
	Result        string          `json:"result"`
}

// Closing says why the stream ends.
type Closing struct {
	// Reason is shutdown: the server stops; unauthorized: the token expired or was revoked; or timeout.
	Reason string `json:"reason"`
}

// Dropped says how many events are missing; 0: an unknown number.
type Dropped struct {
	Count int `json:"count"`
}
