// Package audit records the changes of operators. It writes one row of belfry.audit for each request of
// an operator that changes state. Log lists the rows.
//
// # How a row is written
//
//  1. The HTTP layer puts an Entry into the context. It has the principal, the address, the request id
//     and the action.
//  2. The handler calls Begin once the parameters are valid. It names the target and the parameters.
//  3. The package that makes the change calls Write in the transaction of the change. So the change and
//     the row are committed together, or both are rolled back.
//  4. If the request failed or changed nothing, the HTTP layer writes or completes the row afterwards.
//
// Without an Entry in the context, no row is written. So the requests of producers and consumers, which
// use the same packages, write no row.
//
// # Changes of several transactions
//
// A seek of a queue, a redrive, a purge and the deletion of a group in all queues work in pages. Each
// page is one transaction, and writes the row with the totals so far. So the row always has the
// committed counts, even after a crash.
//
// # What is not in the same transaction
//
//   - Configure creates a new queue in a first transaction. A second transaction sets the options and
//     writes the row. A single transaction could deadlock with a push to the same queue. After a crash
//     between the two transactions, the queue exists with default options and has no row.
//   - If a request failed or found nothing to change, its row is written after the request. If that
//     write fails, the log has the fields of the row.
//
// # What a row never has
//
// A row never has a payload, a secret or the text of an error.
package audit
