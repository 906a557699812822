// Package sweep deletes what queues do not want to keep: messages that are too
// old (retentionSeconds), consumed by every group for long enough
// (completedRetentionSeconds) or waiting too long (maxWaitTimeSeconds); it moves
// cursors past messages that expired (expireAfterSeconds) and removes partitions
// that have been empty for days. Importable from floor 3 upwards.
//
// It promises that no message is deleted while a live lease of any group covers
// it, that cursors behind a deleted message move forward with it, that what was
// deleted or passed unread is counted, and that no request waits long for it: a step is
// one transaction over one partition and at most a batch of messages, and after
// some 20 ms of them the sweep rests seven times as long.
//
// # Who sweeps
//
// Each job is run by one instance at a time. A run is taken by writing a row
// that says until when it is held, and held on to as it goes: an instance that
// died or froze loses it after holdFor, and the next one whose interval comes
// round takes over. So a job is late by one interval and holdFor at most. That
// two work at once, when a frozen one wakes up, does no harm: every step judges
// for itself under its locks. An instance asks once per interval, one query
// when no queue wants anything.
//
// # What is kept
//
// A dead-lettered message stays until its dead letters are gone, or until
// retentionSeconds has passed since each of them failed as well; then both go.
// Older neighbours of such a message are deleted around it. A transaction id
// whose message is gone may be pushed again.
//
// A message that is too old while a lease covers it goes with the next sweep
// after the lease; those behind it are deleted meanwhile, and count as depth of
// that group until it has passed them.
//
// # Locks
//
// The queue (shared), then one partition, then its cursors in order: never a
// partition while holding a cursor. See the functions belfry.sweep_partition and
// belfry.remove_idle_partition in migration 000009.
package sweep
