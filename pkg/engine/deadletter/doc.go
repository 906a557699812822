// Package deadletter runs the verbs for dead letters and for single messages: list, redrive and
// purge dead letters; show, retry and delete one message.
//
// # Promises
//
//   - A redriven message keeps its id, its transaction id and its position in the log. Only the
//     group that it failed for receives it. The package doc of pkg/engine/store describes the delivery.
//   - Its failures and attempts are kept. If its failures have reached retryLimit, one more failure
//     makes it a dead letter again, with the newer error. An earlier failure delays it and
//     the redriven messages after it by retryDelay. The log is not delayed.
//   - To redrive a message twice has the same effect as once.
//   - Redrive and Purge work for a bounded time, then report how many dead letters remain. They
//     take no dead letter that is created after they began.
//
// # Locks
//
// Redrive and Purge use one transaction per page. Locks are taken in the order of pkg/engine/store: cursors
// by (partition, group), and no lock that waits after them. What becomes poppable is published after
// the commit.
package deadletter
