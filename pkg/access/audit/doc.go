// Package audit writes who changed what: one row of belfry.audit for each request of an operator that
// changes state. Log lists the rows.
//
// # How a row is written
//
//  1. The HTTP layer puts an Entry into the context: who, from where, the request id and the action.
//  2. The handler calls Begin once the parameters are valid. It names the target and the parameters.
//  3. The package that makes the change calls Write in the transaction of the change. So the change and
//     the row are committed together, or neither is.
//  4. The HTTP layer completes the row after the request, if the request failed or changed nothing.
//
// A context without an Entry writes nothing. So the requests of producers and consumers, which run in
// the same packages, write no row.
//
// # Changes of several transactions
//
// A seek of a queue, a redrive, a purge and the deletion of a group in all queues work in pages. Each
// page is one transaction, and writes the row with the totals so far. So the counts of the row are
// always what is committed, also after a crash.
//
// # What is not in the same transaction
//
//   - Configure creates a new queue in a transaction of its own, before the one that sets its options
//     and writes the row. One transaction for both could deadlock with a push to the same queue. After
//     a crash between the two, a queue with default options exists and has no row.
//   - The row of a request that failed, and of one that found nothing to change, is written after the
//     request. If that fails, the log has its fields.
//
// # What a row never has
//
// A row has no payload, no secret and no text of an error.
package audit
