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
}

// Audit is the answer to GET /api/v1/audit.
type Audit struct {
	Entries    []AuditEntry `json:"entries"`
	Pagination Page         `json:"pagination"`
}
