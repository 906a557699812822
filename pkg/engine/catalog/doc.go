// Package catalog runs the administrative verbs: configure a queue, delete a queue, delete a
// consumer group, move the stored subscription of a group, and move its cursors (seek).
//
// The verbs are rare and may touch every partition of a queue. They work in small transactions, so
// that no other queue waits for them.
//
// # Promises
//
//   - A changed option takes effect at once, even for waiting messages.
//   - After Delete returns, nothing can be pushed to, popped from or acknowledged in the queue. Run
//     deletes the rows in the background. After a crash, the next start continues.
//   - After DeleteGroup returns, the leases of the group are fenced and its name is free, on all
//     instances.
//   - Only a seek moves a cursor backwards. The group then receives the messages after the new
//     position again, including messages that are dead letters. Their dead letters stay listed
//     until they are purged or redriven.
//   - A verb acts only in the database epoch in which it resolved its names. See pkg/engine/store for
//     epochs. A purge deletes only rows that are marked as deleted when it runs. So a failover or a
//     restored backup cannot make it delete rows that reuse an id.
//
// # How a group is deleted
//
//  1. One small transaction deletes the row of the group.
//  2. Every statement that pops, acknowledges, extends or releases joins the cursor with that row.
//     So after this commit the statement finds no cursor.
//  3. A claim with a remembered group id reports that the group does not exist any more. Then the
//     pop resolves the name again.
//  4. Run deletes the cursors, dead letters and redrives.
//
// # Locks
//
// The verbs take locks in the order of pkg/engine/store: partitions by id, then cursors by (partition,
// group). Configure waits for one locked cursor at a time and holds no other lock meanwhile.
package catalog
