// Package sweep deletes messages that their queue no longer keeps and partitions that are no longer used,
// and old rows of the audit and of the history. It runs five jobs:
//
//   - retention deletes messages that are too old (retentionSeconds), or that every group consumed
//     long enough ago (completedRetentionSeconds). Queues without retentionEnabled are subject to the section retention
//     of the configuration.
//   - eviction deletes messages that waited too long (maxWaitTimeSeconds), and moves cursors past
//     messages that expired (expireAfterSeconds).
//   - partitions removes partitions that have been empty for days.
//   - audit deletes rows of the audit that are older than audit.retention.
//   - history adds up old rows of pkg/insight/history, so that one stands for more minutes, and deletes rows
//     that are older than history.retention.
//
// # Promises
//
//   - No message is deleted while a live lease of any group covers it.
//   - A cursor at a deleted message moves past it.
//   - Every message that is deleted, or that a cursor passes unread, is counted.
//   - No request waits long for a sweep. A step is one transaction on one partition and deletes at
//     most one batch. After about 20 ms of steps, the sweep pauses seven times as long.
//
// # One instance per job
//
//  1. An instance asks once per interval whether a queue needs the job. This is one query.
//  2. If so, it leases the job by writing a row with an end time. It renews the lease while it works.
//  3. An instance that dies or freezes loses the lease after leaseDuration. The next instance whose
//     interval ends takes over. So a job is late by one interval plus leaseDuration at most.
//  4. Two instances may work at once when a frozen one continues. This does no harm, because every
//     step decides under its own locks.
//
// # What stays longer
//
// A dead-lettered message stays until its dead letters are gone, or until retentionSeconds have
// passed since each of them failed. Then the message and its dead letters are deleted. Older
// messages around it are deleted before. The transaction id of a deleted message may be pushed
// again.
//
// A message that is too old while a lease covers it is deleted by the next sweep after the lease.
// Messages after it are deleted meanwhile. They count in the depth of that group until its cursor
// has passed them.
//
// # Locks
//
// A step locks the queue (shared), then one partition, then the cursors of the partition in order.
// It never locks a partition while it holds a cursor. The functions are in sql/functions/sweep.
package sweep
