// Package app wires the rooms together and knows the order in which they start
// and stop. It has no logic of its own, and it is what end-to-end tests start
// too, two of them on one database if they like.
//
// Start: pool, wait for the database, migrate, listen, background work, serve.
// Stop: /health answers 503, waiting pops answer now, requests in flight
// finish, background work ends, the pool closes. Each step is bounded.
//
// Importable by cmd/belfry and by tests.
package app
