package api

import "encoding/json"

// Instance describes a running process.
type Instance struct {
	ID   ID     `json:"id"`
	Host string `json:"host"`
	// Listener is the state of the connection on which the instance receives notifications.
	Listener string `json:"listener"`
	// Sequencer: the instance moves the rows of the inbox into partitions.
	Sequencer bool `json:"sequencer"`
	// Waiting counts the waiting requests of the instance.
	Waiting int `json:"waiting"`
	// UptimeSeconds is the time since the start of the instance.
	UptimeSeconds int64 `json:"uptimeSeconds"`
}

// QueueRates are the figures of one queue at one instance. Waiting counts the waiting requests. The other figures are messages
// per second.
type QueueRates struct {
	Queue     string  `json:"queue"`
	Pushed    float64 `json:"pushed"`
	Delivered float64 `json:"delivered"`
	// Messages that consumers completed.
	Acked float64 `json:"acked"`
	// Messages that consumers could not process: acknowledged with failed or dlq.
	Failed float64 `json:"failed"`
	// Messages that consumers gave back with retry.
	Retried float64 `json:"retried"`
	// Messages that became dead letters by an acknowledgment.
	DeadLettered float64 `json:"deadLettered"`
	Waiting      int     `json:"waiting"`
}

// Rates are the figures of one instance. A queue that is missing was idle, and its number of waiting requests has not
// changed.
type Rates struct {
	// Instance is nil if the watcher may not see it.
	Instance *Instance `json:"instance,omitzero"`
	// Seconds is the time that the figures cover.
	Seconds float64 `json:"seconds"`
	// Queues begins with the busiest queue.
	Queues []QueueRates `json:"queues"`
	// Omitted counts the busy queues that Queues does not list.
	Omitted int `json:"omitted"`
}

// QueueWaiting counts the waiting requests of a queue at the instance of the watcher.
type QueueWaiting struct {
	Queue   string `json:"queue"`
	Waiting int    `json:"waiting"`
}

// LateGroup says that the lag of a group rose above the threshold (Beyond is true) or fell below it.
type LateGroup struct {
	Queue  string `json:"queue"`
	Group  string `json:"group"`
	Beyond bool   `json:"beyond"`
	// Seconds is the age of the oldest message that the group has not finished. It is 0 if there is no such message.
	Seconds float64 `json:"seconds"`
	// ThresholdSeconds is the age from which the group is late.
	ThresholdSeconds float64 `json:"thresholdSeconds"`
}

// DeadLetterGroup says that the number of a group's dead letters reached the threshold (Beyond is true) or fell below it.
type DeadLetterGroup struct {
	Queue  string `json:"queue"`
	Group  string `json:"group"`
	Beyond bool   `json:"beyond"`
	// Threshold is the setting live.dead_letters_threshold.
	Threshold int `json:"threshold"`
}

// Snapshot is the state at the start of a stream. The server takes it from memory. Only the first watcher of an instance
// waits until the server has read Lag and DeadLetters from the database.
type Snapshot struct {
	Instances   []Instance        `json:"instances"`
	Queues      []QueueWaiting    `json:"queues"`
	Lag         []LateGroup       `json:"lag"`
	DeadLetters []DeadLetterGroup `json:"deadLetters"`
	Maintenance *Switches         `json:"maintenance,omitzero"`
}

// ListenerChange is a change of the state of a listener.
type ListenerChange struct {
	State string `json:"state"`
}

// InstanceChange says that another instance sent its first notification (joined) or stopped (left).
type InstanceChange struct {
	// State is joined or left.
	State string `json:"state"`
	Host  string `json:"host"`
}

// SweepCounts counts what sweeps deleted from a queue in the last second.
type SweepCounts struct {
	Retention  int64 `json:"retention"`
	Completed  int64 `json:"completed"`
	Evicted    int64 `json:"evicted"`
	Partitions int64 `json:"partitions"`
}

// SequencerChange says that the instance became the sequencer of the inbox (Leading is true), or is not the sequencer any
// longer.
type SequencerChange struct {
	Leading bool `json:"leading"`
}

// Switches are the maintenance switches.
type Switches struct {
	Push bool `json:"push"`
	Pop  bool `json:"pop"`
}

// AuditEvent is a new row of the audit.
type AuditEvent struct {
	ID            ID              `json:"id"`
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
	// Reason is shutdown (the server stops), unauthorized (the token expired or was revoked) or timeout.
	Reason string `json:"reason"`
}

// Dropped says how many events are missing. 0 means an unknown number.
type Dropped struct {
	Count int `json:"count"`
}
