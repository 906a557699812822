package api

import "time"

// Redrive is the body of POST /api/v1/dlq/redrive. `all` selects all dead letters of the queue and the group. Otherwise at least
// one of `partition`, `transactionId`, `error`, `from` and `to` is set.
type Redrive struct {
	Queue         Name      `json:"queue"`
	Group         Name      `json:"consumerGroup"` // The group, not empty. `__QUEUE_MODE__` means the reader without a group.
	Partition     Name      `json:"partition,omitzero"`
	TransactionID string    `json:"transactionId,omitzero"`
	Error         string    `json:"error,omitzero"`   // Only dead letters with this error. The server compares the first 200 characters.
	From          time.Time `json:"from,omitzero"`    // Only failures at this instant or later.
	To            time.Time `json:"to,omitzero"`      // Only failures at this instant or earlier.
	All           bool      `json:"all,omitzero"`     // Every dead letter of the queue and group.
	Rate          int64     `json:"rate,omitzero"`    // The maximum number of messages per second. Absent means no limit.
	ToQueue       Name      `json:"toQueue,omitzero"` // Move the messages to this queue, which must exist.
	DryRun        bool      `json:"dryRun,omitzero"`  // Only count the dead letters.
	AsOf          string    `json:"asOf,omitzero"`    // The `asOf` of a count of these dead letters. Later ones are left out.
}

// Redriven is the answer of a redrive.
type Redriven struct {
	Success bool `json:"success"`
	Queue   Name `json:"queue"`
	Group   Name `json:"consumerGroup"`
	DryRun  bool `json:"dryRun"`
	RedriveCounts
	ToQueue Name `json:"toQueue,omitzero"` // Only if the request has it.
	// What bounds a later request to the counted dead letters, as its `asOf`.
	AsOf string `json:"asOf,omitzero"`
}

// RedriveCounts counts the dead letters of a redrive. It is also the data of the event `progress` when a redrive is streamed.
type RedriveCounts struct {
	Matched  int64 `json:"matched"`
	Redriven int64 `json:"redriven"`
	// Dead letters whose message or group was deleted. With `toQueue` also dead letters that are encrypted or in use. These
	// stay dead letters.
	Skipped   int64 `json:"skipped"`
	Remaining int64 `json:"remaining"` // Dead letters for the next request.
}

// Counting is the event progress of a count of dead letters.
type Counting struct {
	Matched int64 `json:"matched"` // How many are counted so far.
}

// Counted is the event closing of a count of dead letters.
type Counted struct {
	Matched int64  `json:"matched"`        // How many there were when the count began.
	AsOf    string `json:"asOf,omitzero"`  // What bounds a purge or a redrive to them. Only if the reason is `done`.
	Error   string `json:"error,omitzero"` // Only if the reason is `error`.
	Reason  string `json:"reason"`         // `done`, `timeout`, `unauthorized`, `shutdown` or `error`.
}

// RedriveEnd is the event closing of a redrive as a stream.
type RedriveEnd struct {
	RedriveCounts
	Error  string `json:"error,omitzero"` // Only if the reason is `error`.
	Reason string `json:"reason"`         // `done`, `timeout`, `unauthorized`, `shutdown` or `error`.
}

// Purged is the answer of DELETE /api/v1/dlq.
type Purged struct {
	Success   bool  `json:"success"`
	Queue     Name  `json:"queue"`
	DryRun    bool  `json:"dryRun"`
	Matched   int64 `json:"matched"`
	Purged    int64 `json:"purged"`
	Remaining int64 `json:"remaining"` // Dead letters for the next request.
	// What bounds a later request to the counted dead letters, as its `asOf`.
	AsOf string `json:"asOf,omitzero"`
}

// RedriveJob is a redrive that the instances run until its end.
type RedriveJob struct {
	ID            ID         `json:"id"` // The id of the entry in the audit, too.
	Queue         Name       `json:"queue"`
	Group         string     `json:"consumerGroup"`
	Partition     *string    `json:"partition"`
	TransactionID *string    `json:"transactionId"`
	Error         *string    `json:"error"`
	From          *time.Time `json:"from"`
	To            time.Time  `json:"to"`       // Later failures are not redriven. The default is the start of the job.
	Rate          *int64     `json:"rate"`     // The maximum number of messages per second. null means no limit.
	Matched       int64      `json:"matched"`  // The dead letters at the start. The job redrives at most this number.
	Redriven      int64      `json:"redriven"` // Written in the transaction of each page.
	State         string     `json:"state"`    // `running`, `done`, `stopped` or `failed`.
	Failure       *string    `json:"failure"`
	Subject       *string    `json:"subject"`  // The subject of the token that started the job.
	Instance      *string    `json:"instance"` // The instance that runs or ran the job.
	CreatedAt     time.Time  `json:"createdAt"`
	EndedAt       *time.Time `json:"endedAt"`
}

// RedriveJobs is the answer to GET /api/v1/dlq/jobs.
type RedriveJobs struct {
	Jobs []RedriveJob `json:"jobs"`
}
