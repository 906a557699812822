// Package deadletter holds the verbs for single messages and for those that
// failed: list dead letters, put them back (redrive), purge them, and show or
// delete one message.
//
// A redriven message keeps its id, its transaction id and its place in the log,
// and is delivered to the group it failed for and to no other: before the log, in
// seq order, in a delivery of its own (pkg/store tells how). Each is acknowledged
// for itself. Its failures and attempts go on from where they stood; at the
// queue's retryLimit one more failure makes it a dead letter again, with the newer
// error. One that failed before that rests by retryDelay, and what was redriven
// behind it waits; the log does not. Redriving twice is redriving once.
//
// Redrive and Purge work in pages of a transaction each and for a bounded time,
// then say how many remain; what fails again meanwhile is not taken twice.
//
// Locks are taken in the order of pkg/store: cursors by (partition, group), and
// nothing that waits after that. What becomes poppable is announced after the
// commit.
//
// Importable from floor 3 upwards.
package deadletter
