// Package app constructs all packages, connects them, and starts and stops them in order. It has no
// logic of its own. End-to-end tests start it as well, also twice on one database.
//
// Start: open the pool, listen, wait for the database, migrate, construct the packages, serve. Until then
// the server answers its probes, and every other request with 503.
//
// Stop: /readyz and /health answer 503, http.drain_delay passes, waiting pops are answered, requests in
// flight finish, background work ends, the listener and the sender end, the pools close. Each step has a
// time limit.
package app
