// Package batch is group commit: operations of many callers go to the database
// together, and each caller gets its own outcome.
//
// # When a batch leaves
//
// The first operation leaves at once, in the goroutine that wants it, so that
// nobody is woken for it. While it is in flight the next batch grows, so batches
// are as large as the load makes them and nobody waits for a timer (unless
// Config.MaxWait says so). From Config.BesideSize on a batch leaves beside those
// in flight, Config.MaxFlushes at most: small operations share a transaction,
// large ones share the database. Batches leave in the order in which their
// operations came.
//
// # Lanes
//
// An operation names the lanes it uses, by hash of the partitions it touches: there
// are 16,384, so that operations on other partitions seldom share one by chance.
// Batches in flight at the same time never share a lane: they would only wait
// for each other's row locks. An operation whose lanes are taken waits, and so
// does whatever came after it on the same lanes, so that a wide operation is not
// overtaken for ever. A manager made Alike takes no others into a batch than those
// that name the very same lanes.
//
// # Strangers in one batch
//
// An error of the whole batch is judged by Config.Judge. Split: the batch is
// halved until only the bad operation fails. Again: the same batch is sent again,
// Config.Retries times at most. Fail: all its callers get the error. A panic in a
// flush fails the callers of that flush and nobody else. An outcome that is
// unknown (a lost COMMIT) is the flush's to handle: Again is right when a
// repetition finds out what happened, as a push does by its message ids; else it
// reports the doubt to its callers.
//
// # Bounds
//
// At most Config.QueueSize waits; more callers block until there is room, their
// context ends, or the manager closes. Close refuses new operations, and returns
// when the last batch has been answered.
//
// The package is pure mechanism: it knows nothing of Postgres. Importable by
// every package.
package batch
