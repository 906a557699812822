// Package deadletter runs the verbs for dead letters and for single messages: list, redrive and
// purge dead letters; show, retry and delete one message.
//
// # Promises
//
//   - A redriven message keeps its id, its transaction id and its position in the log. Only the
//     group that it failed for receives it. The package doc of pkg/engine/store describes the delivery.
//   - A redriven message keeps its failures and attempts. If its failures have reached retryLimit,
//     one more failure makes it a dead letter again, with the newer error. A failure below
//     retryLimit delays the message and the redriven messages after it by retryDelay. It does not
//     delay the log.
//   - Redriving a message twice has the same effect as redriving it once.
//   - Redrive and Purge work for a bounded time, then report how many dead letters remain. They
//     leave out dead letters that are created after they began.
//
// # Locks
//
// Redrive and Purge use one transaction per page. They lock cursors by (partition, group), as
// pkg/engine/store requires, and then wait for no other lock. After the commit, they publish the partitions
// that became ready.
package deadletter
