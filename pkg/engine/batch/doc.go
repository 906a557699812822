// Package batch is group commit: it sends the operations of many callers to the database together,
// and returns to each caller the outcome of its own operation.
//
// # When a batch leaves
//
// If no batch is in flight, an operation leaves at once, in the goroutine of its caller. While a
// batch is in flight, the next one grows. So batches are as large as the load makes them, and no
// operation waits for a timer unless Config.MaxWait says so. A batch of at least
// Config.ConcurrentSize leaves while others are in flight, up to Config.MaxFlushes of them. So
// small operations share a transaction and large batches share the database. Batches leave in the
// order in which their operations arrived.
//
// An operation above Config.MaxSize is oversized. It has a batch of its own, which takes long. It
// leaves while others are in flight. Other operations do not wait for it: oversized operations leave
// one flight for them, and have a queue of Config.QueueSize for themselves. The exception is
// Config.MaxFlushes 1, where all share the one flight.
//
// # Lock stripes
//
// An operation names the lock stripes it uses: hashes of the partitions it touches. Batches that
// are in flight at the same time never share a stripe: they would only wait for each other's row
// locks. An operation whose stripe is in use waits, and so does every later operation on the same
// stripes. So an operation on many partitions is never overtaken forever. Of the oversized
// operations that wait, only the oldest makes later operations wait.
//
// # Errors
//
// The judge of the Manager decides what happens if a whole batch fails:
//
//   - Split halves the batch until only the operations that fail are left.
//   - Retry sends the same batch again, at most Config.Retries times.
//   - Fail returns the error to all callers of the batch.
//
// A panic in a flush fails the callers of that flush and no others. The flush must handle an
// unknown outcome, such as a lost COMMIT. Retry is right if a repetition finds out what happened,
// as a push does by its message ids. Otherwise the flush reports to its callers that the outcome is
// unknown.
//
// The package knows nothing of Postgres.
package batch
