// Package batch implements group commit: it sends the operations of many callers to the database
// together, and returns to each caller the outcome of its own operation.
//
// # When a batch leaves
//
// If no batch is in flight, an operation leaves at once, in the goroutine of its caller. While a
// batch is in flight, new operations form the next batch. So the load determines the size of
// batches, and an operation waits for a timer only if Config.MaxWait is set. While a batch is in
// flight, another batch of at least Config.ConcurrentSize may leave. At most Config.MaxFlushes
// batches are in flight. So small operations share a transaction, and large batches run at the same
// time. Batches leave in the order in which their operations arrived.
//
// An operation above Config.MaxSize is oversized. It leaves in a separate batch, even while other
// batches are in flight. Such a batch takes long, so regular operations must not wait for it.
// Oversized operations have a separate queue of Config.QueueSize, and leave one of the flights free.
// With Config.MaxFlushes 1, all operations share the one flight.
//
// # Lock stripes
//
// An operation names the lock stripes it uses: hashes of the partitions it touches. Two batches in
// flight never share a stripe, because one would only wait for the row locks of the other. An
// operation whose stripe is in use waits. Every later operation on one of its stripes waits too, so
// an operation on many partitions is never overtaken forever. Among waiting oversized operations,
// only the oldest makes later operations wait.
//
// # Errors
//
// The judge of the Manager decides what happens if a whole batch fails:
//
//   - Split halves the batch until only the operations that fail are left.
//   - Retry sends the same batch again, at most Config.Retries times.
//   - Fail returns the error to all callers of the batch.
//
// A panic in a flush fails only the callers of that flush. The flush must handle an unknown
// outcome, such as a lost COMMIT. Retry is right if a repetition detects whether the first attempt
// was committed. A push detects this by its message ids. Otherwise the flush reports to its callers
// that the outcome is unknown.
//
// The package does not use Postgres.
package batch
