// Package integration tests the server from outside. It starts pkg/app on a real Postgres and sends HTTP requests, as
// clients and operators do.
//
// It tests the API that is compatible with Queen MQ: shapes and statuses of answers, payloads byte for byte, acks, leases,
// groups, delays and waiting requests. It also tests races between clients, deleted queues, failures of the database, and
// ten instances that start at the same time. Tests of a single package are in the folder of that package.
//
// It has only tests, and no package imports it.
package integration
