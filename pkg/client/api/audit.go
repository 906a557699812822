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
	// The address of the client; see `http.trusted_proxies`. sql: a session of the database.
	Address       string          `json:"address"`
	RequestID     string          `json:"requestId"` // The `X-Request-Id` of the answer.
	Action        string          `json:"action"`
	Queue         *string         `json:"queue"`
	Partition     *string         `json:"partition"`
	ConsumerGroup *string         `json:"consumerGroup"`
	TransactionID *string         `json:"transactionId"`
	Parameters    json.RawMessage `json:"parameters"` // The parameters of the request that matter, by their names in the request.
	// How many queues, groups, cursors, subscriptions, dead letters or messages were changed. Changes that were committed
	// before a failure count.
	Counts json.RawMessage `json:"counts"`
	// `ok`, or the code of the error: `not_found`, `unavailable`, `overloaded`, `internal` or `canceled`.
	Result string `json:"result"`
}

// Audit is the answer to GET /api/v1/audit.
type Audit struct {
	Entries    []AuditEntry `json:"entries"`
	Pagination Page         `json:"pagination"`
}
