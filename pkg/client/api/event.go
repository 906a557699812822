package api

import "encoding/json"

// Instance describes a running process.
type Instance struct {
	ID   ID     `json:"id"`
	Host string `json:"host"`
	// Listener is the state of its listener.
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
	Instance *Instance `json:"instance,omitzero"`
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

// LateGroup says that a group is further behind than the threshold, or no longer.
type LateGroup struct {
	Queue  string `json:"queue"`
	Group  string `json:"group"`
	Beyond bool   `json:"beyond"`
	// Seconds is the age of the oldest message that the group has not finished; 0: none.
	Seconds float64 `json:"seconds"`
	// ThresholdSeconds is from which age on the group is late.
	ThresholdSeconds float64 `json:"thresholdSeconds"`
}

// DeadLetterGroup says that a group has at least as many dead letters as the threshold, or no longer.
type DeadLetterGroup struct {
	Queue  string `json:"queue"`
	Group  string `json:"group"`
	Beyond bool   `json:"beyond"`
	// Threshold is live.dead_letters_threshold.
	Threshold int `json:"threshold"`
}

// Snapshot is what is known at the start of a stream. It is from memory, except that the first watcher
// of an instance waits for one read of Lag and DeadLetters.
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

// InstanceChange says that another instance was heard first, or left.
type InstanceChange struct {
	// State is joined or left.
	State string `json:"state"`
	Host  string `json:"host"`
}

// SweepCounts is what sweeps deleted of a queue in the last second.
type SweepCounts struct {
	Retention  int64 `json:"retention"`
	Completed  int64 `json:"completed"`
	Evicted    int64 `json:"evicted"`
	Partitions int64 `json:"partitions"`
}

// SequencerChange says that the instance became the sequencer of the inbox, or stopped being it.
type SequencerChange struct {
	Leading bool `json:"leading"`
}

// Switches are the maintenance switches.
type Switches struct {
	Push bool `json:"push"`
	Pop  bool `json:"pop"`
}

// AuditEvent is a row of the audit.
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
	// Reason is shutdown: the server stops; unauthorized: the token expired or was revoked; or timeout.
	Reason string `json:"reason"`
}

// Dropped says how many events are missing; 0: an unknown number.
type Dropped struct {
	Count int `json:"count"`
}
