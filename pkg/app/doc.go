// Package app constructs all packages, connects them, and starts and stops them in order. It has no other logic. End-to-end tests
// use it too, also for two servers on one database.
//
// Start: open the pool, listen, wait for the database, migrate, construct the packages, serve. Before the last step the server
// answers health probes, and answers 503 to every other request.
//
// Stop: /readyz and /health answer 503, http.drain_delay passes, waiting pops are answered, requests in
// flight finish, background work ends, the listener and the sender end, the pools close. Each step has a
// time limit.
package app
