// Package catalog holds the verbs of an operator: configure a queue, delete one,
// delete a consumer group, move its subscription or its place. They are rare, may
// touch every partition of a queue, and work in small transactions so that no
// other queue waits for them.
//
// It promises that a changed option takes effect at once, also for messages
// that are waiting already, and that nothing can be pushed to or popped from a
// queue once its deletion was answered; its rows go afterwards in the
// background, and a crash in between only means that the next start goes on.
//
// A consumer group is deleted the same way: one small transaction takes its row
// away, and every statement that pops, acknowledges, extends or releases finds a
// cursor only together with that row. So its leases are fenced and its name is
// free at that commit, on all instances, whatever they remember: a claim says
// that the group is gone, and the pop resolves the name again.
//
// A seek is the only thing that moves a cursor backwards (I6). Back means replay:
// what follows the place is delivered again, also what was dead-lettered, whose
// dead letters stay listed until they are purged or redriven.
//
// What a verb found by name it acts upon only in the life of the database in which it
// found it (pkg/store, "What is remembered"), and a purge only on what is deleted by then:
// a failover or a backup put back may give the ids to others in between.
//
// Locks are taken in the order of pkg/store: partitions by id, then cursors by
// (partition, group). A changed option waits for one cursor at a time, and holds no
// other meanwhile.
//
// Importable from floor 3 upwards.
package catalog
