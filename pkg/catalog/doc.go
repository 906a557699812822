// Package catalog holds the verbs of an operator: configure a queue, delete one.
// They are rare, may touch every partition of a queue, and work in small
// transactions so that no other queue waits for them.
//
// It promises that a changed option takes effect at once, also for messages
// that are waiting already, and that nothing can be pushed to or popped from a
// queue once its deletion was answered; its rows go afterwards in the
// background, and a crash in between only means that the next start goes on.
//
// Locks are taken in the order of pkg/store: partitions by id, then cursors by
// (partition, group).
//
// Importable from floor 3 upwards.
package catalog
