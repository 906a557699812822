// Package integration tests the server from outside: it starts what an operator
// starts, pkg/app on a real Postgres, and speaks HTTP to it as a client does.
//
// It promises that the wire contract holds end to end: the shape and status of
// every answer, payloads byte for byte, the meaning of acks, leases, groups and
// delays, what waiting requests get, and what happens when clients race, queues
// vanish, the database goes away or ten instances start at once. What one room
// does by itself is tested in that room.
//
// It has tests only; nobody imports it.
package integration
