// Package inbox turns each committed row of belfry.inbox into a message. A program that speaks only
// SQL pushes by inserting such a row in its own transaction. One instance is the sequencer: it moves
// the rows into their partitions. pkg/app calls Run.
//
// # Promises
//
//   - A committed row is stored once as a message. A row that is rolled back, also to a savepoint,
//     is not stored.
//   - Rows of one transaction are stored in the order of their inserts. Rows that transaction B
//     inserts after the commit of transaction A are stored after the rows of A. Transactions that
//     are open at the same time have no promised order.
//   - No other producer, push over HTTP or consumer waits for a lock of a producer.
//   - An open transaction delays no rows of other transactions and causes no queries. Its rows get
//     their seq after its commit, so no message appears before a cursor.
//   - If the sequencer dies or freezes, another instance takes over within two seconds after the
//     first row waits.
//   - An idle sequencer sends one scan per dispatch.fallback_interval and no other query.
//
// # Why a row is stored once
//
//  1. One transaction stores the message and deletes the row (Store.Sequence).
//  2. The deletion fails if one of its rows is missing (belfry.inbox_delete). So two sequencers
//     never store the same row.
//  3. If the answer to a COMMIT is lost, the next scan finds the rows only if the COMMIT failed.
//
// The advisory lock of the sequencer only saves work. Correctness does not depend on this lock. The
// COMMIT waits for the disk. Otherwise a crash could undo the transaction after a consumer has
// received the message, and the row would be stored again with another message id.
//
// # Why rows stay in order
//
//  1. Ids are assigned in the order of the inserts.
//  2. One scan reads one snapshot in id order, and all its rows are stored before the next scan.
//  3. A snapshot that contains an insert contains everything committed before that insert.
//  4. The sequencer waits for locked rows and does not skip them. If a second sequencer skipped
//     rows that the first sequencer is storing, it would store later rows first.
//  5. The sequencer stores on the session that holds its leader lock. When this session ends,
//     Postgres undoes its open transaction, so the transaction cannot commit later.
//
// # Scans
//
// A scan reads the rows that the snapshot of the previous scan did not contain. It finds these rows
// by the ids of the transactions that wrote them (look.sql). So a scan reads no deleted rows, even
// while an old snapshot keeps vacuum from removing them. A full scan reads all rows. It runs every
// dispatch.fallback_interval, and after a resync.
//
// # Which rows are rejected
//
// A row is valid if an HTTP producer may push its content, and it has the same effects as a push.
// created_at of the message is the time at which the sequencer stores it. The sequencer moves other
// rows to belfry.inbox_rejected with a code and a reason:
//
//   - invalid: a name or transaction id is too long, visible_at is more than a year away, or the
//     database refuses the row. The sequencer halves a refused batch until it has found the row.
//   - invalid: a text is not UTF-8. This is possible in a database with another encoding. Such a row
//     makes the scan fail, and then a statement searches for the row (readable.sql).
//   - invalid: some client cannot read the payload (pkg/engine/portable), unless http.allow_any_json is set.
//   - too_large: the payload exceeds http.max_body_bytes.
//   - queue_full: the queue holds maxSize messages.
//
// The producer has committed, so it cannot get the error. Keeping the row in the inbox would block
// later rows. If an error is not caused by a row (a full disk), the sequencer rejects nothing and
// tries again.
//
// # Notifications
//
// A statement-level trigger notifies a channel of the inbox with a constant payload. Postgres sends
// one notification per transaction, after the rows are visible. Commits that notify run one after
// another in the whole cluster. So producers leave out the notification while the sequencer is
// awake.
//
//   - The sequencer becomes awake when two or more notifications arrive during a scan. It then scans
//     every 25 ms. It goes to sleep when for 0.1 s no scan has found more than one row.
//   - A single commit notifies a sleeping sequencer, which scans at once.
//   - A session with belfry.notify = off sends no notification and takes no lock. Its rows move
//     with other rows, after SELECT belfry.wake(), or with the next full scan.
//   - While the listener is not proven, the sequencer scans every dispatch.max_poll_interval.
//
// docs/sql.md describes prepared transactions, logical replication and a full notification queue.
//
// # Why a sleeping sequencer misses no row
//
// The protocol uses three advisory locks besides the leader lock. While the sequencer sleeps, it
// holds SLEEP on a separate session (sleepConn). It holds WATCH and AWAKE on the leader session, and
// both end with this session.
//
//	producer      try to take SLEEP, shared, until the transaction ends; if refused, notify
//	              try to take AWAKE, shared, and release it at once; if not refused, notify
//	              otherwise leave out the notification
//	wake up       take WATCH and notify all instances, in one statement; take AWAKE;
//	              release SLEEP
//	go to sleep   release AWAKE; wait for SLEEP; scan; release WATCH
//	take over     take WATCH and notify all instances; scan; go to sleep
//
// The sequencer finds the rows of a producer P that leaves out its notification:
//
//  1. P holds SLEEP, shared, when it sees that a sequencer S holds AWAKE. P keeps SLEEP until its
//     rows are visible, because a commit releases locks last.
//  2. S takes WATCH before AWAKE. S requests SLEEP only after it has released AWAKE, so S gets SLEEP
//     after P has ended.
//  3. S scans after it gets SLEEP and before it releases WATCH. That scan finds the rows of P.
//  4. If sleepConn dies, SLEEP ends with it. This is harmless: after S has released AWAKE, every
//     producer notifies, whether it gets SLEEP or not.
//  5. A rollback to a savepoint releases the SLEEP lock of an insert only together with the rows of
//     this insert.
//
// The rows of P are also found if S dies first:
//
//  1. WATCH and AWAKE end with the session of S, so later producers notify.
//  2. When S took WATCH, before AWAKE, it notified the other instances. They watch until two probes
//     in a row find no row and no WATCH. S must hold the leader lock when the second probe begins.
//     So S released WATCH itself: WATCH did not end with a dead session.
//  3. One of the other instances takes over. It follows "go to sleep" above, so it waits for P too.
//     If no other instance runs, the next one that starts takes over.
//  4. If S dies after it has released WATCH, no row without a notification is left.
//
// While the sequencer waits for SLEEP, Postgres refuses SLEEP to new producers, so they notify. The
// older producers end one by one. A producer whose transaction stays open for an hour causes no
// queries of the sequencer. Meanwhile, the other instances watch every 0.6 s. The statement that
// waits for SLEEP has a snapshot. It holds back vacuum no longer than the transaction of the
// producer does. A prepared transaction with such an insert counts as an open producer until it
// ends.
//
// # Which instance is the sequencer
//
// The sequencer is the instance that holds the leader lock on its leader session. The other
// instances are on standby:
//
//  1. They receive the same notifications. After a notification they probe the inbox every 0.6 s,
//     while rows wait or the sequencer holds WATCH.
//  2. If the leader lock is free, one of them takes it.
//  3. The sequencer counts as frozen if the first row is still the same and the leader session has
//     waited for its client for one second. They end its session. On a slow database the leader
//     session does not wait for its client, so it does not count as frozen.
//  4. A sequencer that stops notifies the other instances.
//
// Every role that can connect can take these locks. The doctor names such a foreign session (check foreign_locks).
// The foreign session can delay rows, but no row is lost:
//
//   - With the leader lock or WATCH, the session keeps every instance from being the sequencer. If the
//     session is idle, Belfry ends it like a frozen sequencer, if it has the right. If the first row
//     has waited for five seconds, a log line once a minute names the session and the statement that
//     ends it. An instance that cannot take WATCH names the holder in its error. The status of the
//     dispatcher shows inbox.holder. belfry_inbox_sequencer is 0 on all instances, and
//     belfry_inbox_oldest_seconds grows.
//   - With SLEEP, the session keeps the sequencer from sleeping, as a long transaction does.
//   - With AWAKE, the session makes producers leave out notifications although no sequencer is
//     awake. While a sequencer sleeps, producers notify nevertheless, because it holds SLEEP.
//     Without a sequencer, the rows wait for dispatch.fallback_interval.
package inbox
