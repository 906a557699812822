package api

import "time"

// Extend is the body of POST /api/v1/lease/:leaseId/extend.
type Extend struct {
	// The lease lasts at least this many seconds from now. The value is from 1 to 604800, a week. An absent value counts as 60.
	Seconds int `json:"seconds"`
}

// Extended is the answer of an extension. The answers 404 (no such lease) and 409 (the lease has expired) have it too.
type Extended struct {
	LeaseID   string     `json:"leaseId"`
	Success   bool       `json:"success"`
	Error     *string    `json:"error"`     // Why the lease was not extended, or null.
	ExpiresAt *time.Time `json:"expiresAt"` // The same as `newExpiresAt`.
	// The end of the lease by the clock of the server. null if the lease was not extended.
	NewExpiresAt *time.Time `json:"newExpiresAt"`
}
