package api

// Dispatcher is the answer to GET /api/v1/status/dispatcher. It describes the waiting requests and what wakes them.
type Dispatcher struct {
	Listener Listener `json:"listener"` // The connection that receives the wakes of other instances.
	// Messages that producers wrote with SQL. Absent when the database does not answer. Counts stop at 100000.
	Inbox   *Inbox `json:"inbox,omitzero"`
	Waiting int64  `json:"waiting"` // Requests that wait at this instance.
	// The waiting requests by target. A request by tags has `namespace` and `task` instead of a queue.
	Groups []WaitingGroup `json:"groups"`
	Due    []DueTarget    `json:"due"` // Partitions that become ready at a known instant.
	// Groups that pause before the next probe because the last probes found nothing.
	Backoff []BackoffTarget `json:"backoff"`
	// Group commit at this instance since its start, by operation. `take` is a pop with `autoAck`. `held` is an acknowledgment
	// or a transaction that waits for a partition which a SQL consumer has locked.
	Batches   []Batch `json:"batches"`
	Truncated bool    `json:"truncated"` // The lists are not complete.
}

// Listener is the state of the connection that listens to Postgres.
type Listener struct {
	State             string  `json:"state"`
	SecondsSinceProof float64 `json:"secondsSinceProof"` // Time since the connection last received its own test notification.
	Reconnects        int64   `json:"reconnects"`
	Peers             int64   `json:"peers"` // The number of other instances whose notifications arrive.
}

// Inbox describes the messages that producers wrote with SQL.
type Inbox struct {
	Waiting       int64    `json:"waiting"`       // Committed messages that are not in their partitions yet.
	OldestSeconds Interval `json:"oldestSeconds"` // The age of the oldest waiting message.
	// Messages that cannot be stored. They are in `belfry.inbox_rejected`, with the reason.
	Rejected  int64 `json:"rejected"`
	Sequencer bool  `json:"sequencer"` // This instance moves the messages to their partitions.
	// The database session that has the lock for moving the messages. Absent while no session has the lock. Sessions of
	// Belfry have the application name `belfry-inbox`, unless the database URL sets `application_name`. If another program
	// has the lock, Belfry cannot move messages. End that session with `SELECT pg_terminate_backend(pid)`.
	Holder *InboxHolder `json:"holder,omitzero"`
}

// InboxHolder is the session that has the lock for moving messages out of the inbox. It can be a session of another program.
type InboxHolder struct {
	PID         int64  `json:"pid"` // 0 for a prepared transaction.
	User        string `json:"user"`
	Application string `json:"application"` // The application name of the session.
}

// WaitingGroup describes the waiting requests of one group.
type WaitingGroup struct {
	Queue              Name     `json:"queue,omitzero"`
	Partition          Name     `json:"partition,omitzero"`
	Namespace          Name     `json:"namespace,omitzero"`
	Task               Name     `json:"task,omitzero"`
	ConsumerGroup      Name     `json:"consumerGroup"`
	Waiting            int64    `json:"waiting"`
	OldestSeconds      Interval `json:"oldestSeconds"`      // How long the oldest of these requests has waited.
	NextTimeoutSeconds Interval `json:"nextTimeoutSeconds"` // Time until the next of these requests times out.
}

// Target is a group, or a group in one partition. The names are absent after a deletion.
type Target struct {
	GroupID       int64  `json:"groupId"`
	PartitionID   int64  `json:"partitionId,omitzero"`   // Absent for a whole group.
	Queue         string `json:"queue,omitzero"`         // Absent when the database does not answer.
	ConsumerGroup string `json:"consumerGroup,omitzero"` // Absent when the database does not answer.
	Partition     string `json:"partition,omitzero"`     // Absent when the database does not answer.
}

// DueTarget is a partition or a group that becomes due.
type DueTarget struct {
	Target
	InSeconds Interval `json:"inSeconds"`
}

// BackoffTarget is a group that backs off.
type BackoffTarget struct {
	Target
	EmptyLooks   int64    `json:"emptyLooks"`   // Probes in a row that found nothing.
	DelaySeconds Interval `json:"delaySeconds"` // The pause before the next probe.
}

// Batch is the group commit of one operation.
type Batch struct {
	Operation string `json:"operation"`
	// Messages that wait for a flush. Each call counts as at most `batch.max_size` messages.
	Waiting        int64 `json:"waiting"`
	BlockedCallers int64 `json:"blockedCallers"` // Callers that wait because the queue (`batch.queue_size`) is full.
	InFlight       int64 `json:"inFlight"`       // Flushes in flight.
	Flushes        int64 `json:"flushes"`
	Calls          int64 `json:"calls"` // Calls that the flushes committed.
	// Messages of these calls. A pop counts with its batch size, at most `batch.max_size`.
	Size         int64   `json:"size"`
	FlushSeconds float64 `json:"flushSeconds"` // Duration of all flushes together.
	Splits       int64   `json:"splits"`       // Flushes that failed and were split to find the failing call.
	Retries      int64   `json:"retries"`      // Flushes that failed for a temporary reason and were sent again.
	Failures     int64   `json:"failures"`     // Flushes whose callers got an error.
}
