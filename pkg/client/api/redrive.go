package api

import "time"

// Redrive is the body of POST /api/v1/dlq/redrive. `all` selects all dead letters of the queue and the group. Otherwise at least
// one of `partition`, `transactionId`, `error`, `from` and `to` is set.
type Redrive struct {
	Queue Name `json:"queue"`
	// The group, not empty. `__QUEUE_MODE__` means the reader without a group.
	Group         Name   `json:"consumerGroup"`
	Partition     Name   `json:"partition,omitzero"`
	TransactionID string `json:"transactionId,omitzero"`
	// Only this error. The first 200 characters are compared.
	Error string `json:"error,omitzero"`
	// Only failures at this instant or later.
	From time.Time `json:"from,omitzero"`
	// Only failures at this instant or earlier.
	To time.Time `json:"to,omitzero"`
	// Every dead letter of the queue and group.
	All bool `json:"all,omitzero"`
	// The maximum number of messages per second. Absent means no limit.
	Rate int64 `json:"rate,omitzero"`
	// Move the messages to this queue, which must exist.
	ToQueue Name `json:"toQueue,omitzero"`
	// Only count the dead letters.
	DryRun bool `json:"dryRun,omitzero"`
}

// Redriven is the answer of a redrive.
type Redriven struct {
	Success bool `json:"success"`
	Queue   Name `json:"queue"`
	Group   Name `json:"consumerGroup"`
	DryRun  bool `json:"dryRun"`
	RedriveCounts
	// Only if the request has it.
	ToQueue Name `json:"toQueue,omitzero"`
}

// RedriveCounts counts the dead letters of a redrive. The event progress of a redrive as a stream has it alone.
type RedriveCounts struct {
	Matched  int64 `json:"matched"`
	Redriven int64 `json:"redriven"`
	// Dead letters whose message or group does not exist any more. With `toQueue` also those that are encrypted or in use: they
	// stay.
	Skipped int64 `json:"skipped"`
	// Dead letters for the next request.
	Remaining int64 `json:"remaining"`
}

// RedriveEnd is the event closing of a redrive as a stream.
type RedriveEnd struct {
	RedriveCounts
	// Only if the reason is `error`.
	Error string `json:"error,omitzero"`
	// `done`, `timeout`, `unauthorized`, `shutdown` or `error`.
	Reason string `json:"reason"`
}

// Purged is the answer of DELETE /api/v1/dlq.
type Purged struct {
	Success bool  `json:"success"`
	Queue   Name  `json:"queue"`
	DryRun  bool  `json:"dryRun"`
	Matched int64 `json:"matched"`
	Purged  int64 `json:"purged"`
	// Dead letters for the next request.
	Remaining int64 `json:"remaining"`
}
