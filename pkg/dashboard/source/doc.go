// Package source reads what the dashboard shows, and does what it is asked to do, through the HTTP API
// of the same process. So the rights, the grants, the limits and the audit of the API hold for the
// dashboard.
//
// Reads are shared: callers whose role and grants are equal get one answer. An answer is used again
// until something changes, see Client. It may be imported by pkg/dashboard and its packages.
package source
