// Package integration tests the server from outside. It starts pkg/app on a real Postgres and uses it over HTTP, as an
// operator and a client do.
//
// It checks the compatible API end to end: shapes and statuses of answers, payloads byte for byte, acks, leases,
// groups, delays and waiting requests. It also checks races between clients, deleted queues, failures of the database,
// and ten instances that start at once. Tests of a single package are in that package.
//
// It has only tests, and no package imports it.
package integration
