// Package source calls the HTTP API of the same process for the dashboard: it reads the figures of the pages
// and performs the actions. So the rights, grants, limits and audit of the API also apply to the dashboard.
//
// Callers with equal role and grants share the answers to reads. Client describes how long an answer is used.
// Only pkg/dashboard and its packages may import this package.
package source
