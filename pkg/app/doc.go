// Package app constructs all rooms, connects them, and starts and stops them in order. It has no
// logic of its own. End-to-end tests start it as well, also twice on one database.
//
// Start: open the pool, wait for the database, migrate, construct the rooms, listen, serve.
//
// Stop: /health answers 503, waiting pops are answered, requests in flight finish, background work
// ends, the listener and the sender end, the pools close. Each step has a time limit.
//
// It is floor 6 and may be imported by cmd/belfry and by tests.
package app
