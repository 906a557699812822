// Package app constructs all packages, connects them, and starts and stops them in order. The package has no other logic.
// End-to-end tests use the package too, also to run two servers on one database.
//
// Start: open the pool, listen, wait for the database, migrate, construct the packages, serve. Before the last step the server
// answers health probes, and answers 503 to every other request.
//
// Stop: /readyz and /health answer 503, then http.drain_delay passes. Waiting pops are answered, and requests in flight finish.
// Background work ends, the listener and the sender end, and the pools close. Each step has a time limit.
package app
