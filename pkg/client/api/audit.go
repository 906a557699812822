package api

import (
	"encoding/json"
	"time"
)

// AuditEntry is a change of an operator.
type AuditEntry struct {
	ID ID        `json:"id"`
	At time.Time `json:"at"`
	// The subject of the token, or the role of the database. null without authentication.
	Subject *string `json:"subject"`
	TokenID *string `json:"tokenId"` // The id of the token.
	// The address of the client; see `http.trusted_proxies`. A change from a database session has the address `sql`.
	Address       string          `json:"address"`
	RequestID     string          `json:"requestId"` // The `X-Request-Id` of the answer.
	Action        string          `json:"action"`
	Queue         *string         `json:"queue"`
	Partition     *string         `json:"partition"`
	ConsumerGroup *string         `json:"consumerGroup"`
	TransactionID *string         `json:"transactionId"`
	Parameters    json.RawMessage `json:"parameters"` // The relevant parameters of the request, under the names that the request uses.
	// The numbers of changed queues, groups, cursors, subscriptions, dead letters or messages. Changes that were committed
	// before a failure count.
	Counts json.RawMessage `json:"counts"`
	// `ok`, or an error code: `not_found`, `unavailable`, `overloaded`, `internal` or `canceled`.
	Result string `json:"result"`
	// `POST /api/v1/audit/{id}/undo` can undo the change: it kept old values, it is not undone, and no later seek moved the group.
	Undoable bool `json:"undoable"`
	UndoneBy *ID  `json:"undoneBy"` // The entry of the undo.
}

// Undo is the answer to a request that undoes a change, and to its preview.
type Undo struct {
	ID         ID      `json:"id"` // The entry of the undone change.
	Action     string  `json:"action"`
	UndoAction string  `json:"undoAction"` // The action of the entry that the undo writes.
	Queue      Name    `json:"queue"`
	Partition  *string `json:"partition"`
	Group      *string `json:"consumerGroup"`
	DryRun     bool    `json:"dryRun"` // Nothing was changed.
	// The options, the tags, or the pause that change.
	Values []UndoneValue `json:"values"`
	Places *UndonePlaces `json:"places"` // null except for a seek.
}

// UndoneValue is a value that an undo changes.
type UndoneValue struct {
	Name string          `json:"name"` // The name of an option or tag, `paused` or `reason`.
	Now  json.RawMessage `json:"now"`  // The value before the undo.
	Then json.RawMessage `json:"then"` // The value after the undo.
}

// UndonePlaces counts what the undo of a seek moves. A partition whose group has finished all messages up to the old position
// again does not move.
type UndonePlaces struct {
	PartitionsMovedBack    int64 `json:"partitionsMovedBack"`
	PartitionsMovedForward int64 `json:"partitionsMovedForward"`
	PartitionsGone         int64 `json:"partitionsGone"` // Partitions that were deleted since.
	// The messages that the group finished and receives again. Deleted messages count.
	MessagesDeliveredAgain int64  `json:"messagesDeliveredAgain"`
	MessagesSkipped        int64  `json:"messagesSkipped"`       // The unfinished messages that the group does not receive. Deleted messages count.
	LeasesEnded            *int64 `json:"leasesEnded,omitempty"` // Live leases that end. Only in the preview.
}

// Audit is the answer to GET /api/v1/audit.
type Audit struct {
	Entries    []AuditEntry `json:"entries"`
	Pagination Page         `json:"pagination"`
}
