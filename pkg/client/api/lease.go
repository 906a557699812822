package api

import "time"

// Extend is the body of POST /api/v1/lease/:leaseId/extend.
type Extend struct {
	// The lease lasts at least so long from now. 1 second to a week, and 60 seconds if it is absent.
	Seconds int `json:"seconds"`
}

// Extended is the answer of an extension, also for a lease that does not exist (404) or has expired (409).
type Extended struct {
	LeaseID   string     `json:"leaseId"`
	Success   bool       `json:"success"`
	Error     *string    `json:"error"`     // Why the lease was not extended, or null.
	ExpiresAt *time.Time `json:"expiresAt"` // The same as `newExpiresAt`.
	// The end of the lease by the clock of the server. null if the lease was not extended.
	NewExpiresAt *time.Time `json:"newExpiresAt"`
}
