// Package sweep deletes old messages, unused partitions, and old rows of the audit and of the history. It
// runs five jobs:
//
//   - retention deletes messages that are older than retentionSeconds. It also deletes messages that every group
//     consumed more than completedRetentionSeconds ago. For queues without retentionEnabled it uses the section
//     retention of the configuration.
//   - eviction deletes messages that waited longer than maxWaitTimeSeconds, and moves cursors past
//     messages that expired (expireAfterSeconds).
//   - partitions removes empty partitions without a push for partition_cleanup_days.
//   - audit deletes audit rows that are older than audit.retention.
//   - history combines old rows of pkg/insight/history into rows that cover more minutes, and deletes rows
//     that are older than history.retention.
//
// # Promises
//
//   - No message is deleted while a live lease of any group covers it.
//   - A cursor before a deleted message moves past it.
//   - Metrics count every message that is deleted, or that a cursor moves past unread.
//   - No request waits long for a sweep. A step is one transaction on one partition and deletes at
//     most one batch. After about 20 ms of steps, the sweep pauses for seven times that time, at
//     most 1 s.
//
// # One instance per job
//
//  1. Once per interval, an instance checks with one query whether a queue needs the job.
//  2. If a queue needs the job, the instance leases the job: it writes a row with an end time. It
//     renews the lease while it works.
//  3. An instance that dies or freezes loses the lease after leaseDuration. The next instance whose
//     interval ends takes over. So a run is late by at most one interval plus leaseDuration.
//  4. If a frozen instance continues, two instances may work at the same time. This is harmless,
//     because every step checks the messages under its own locks.
//
// # Which messages stay longer
//
// A message with dead letters stays until its dead letters are deleted, or until each of them
// failed more than retentionSeconds ago. Then the message and its dead letters are deleted. Other
// old messages of the partition are deleted earlier. The transaction id of a deleted message can be
// pushed again.
//
// If a live lease covers an old message, the next sweep after the lease deletes the message. Old
// messages after it are deleted meanwhile. They count in the depth of that group until its cursor
// is after them.
//
// # Locks
//
// A step locks the queue (shared), then one partition, then the cursors of the partition in order.
// It never locks a partition while it holds a cursor. The functions are in sql/functions/sweep.
package sweep
