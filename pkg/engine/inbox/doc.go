// Package inbox makes a committed row of belfry.inbox a message. A program that speaks only SQL
// pushes by inserting such a row in a transaction of its own. One instance is the sequencer: it moves
// the rows into their partitions. Run is called by pkg/app.
//
// # Promises
//
//   - A committed row is stored once. A row that is rolled back, also to a savepoint, is not stored.
//   - Rows of one transaction are stored in the order of their inserts. If one transaction inserts
//     after another one has committed, its rows are stored later. Nothing is promised about the
//     order of transactions that are open at the same time.
//   - Producers take no lock that another producer, a push over HTTP or a consumer waits for.
//   - An open transaction delays no other row and costs nothing. Its rows get their seq after its
//     commit, so no row appears behind a cursor.
//   - If the sequencer dies or freezes, another instance takes over within two seconds of the first
//     row that waits.
//   - An idle system sends no query, apart from one scan per dispatch.fallback_interval.
//
// # Why a row is stored once
//
//  1. One transaction stores the message and deletes the row (Store.Sequence). Both happen or
//     neither.
//  2. The deletion must find all rows of the transaction, otherwise it fails (belfry.inbox_delete).
//     So two sequencers never store the same row.
//  3. If the answer to a COMMIT is lost, the next scan finds the rows, or they are gone.
//
// The advisory lock of the sequencer only saves work. Correctness does not depend on it. The
// transaction waits for the disk. Without that, a crash could undo it after a consumer had seen the
// message, and the row would be stored again with another id.
//
// # Why rows stay in order
//
//  1. Ids are assigned in the order of the inserts.
//  2. One scan reads one snapshot in id order, and all its rows are stored before the next scan.
//  3. A snapshot that contains an insert contains everything committed before that insert.
//  4. The sequencer waits for locked rows and does not skip them. A second sequencer that skipped
//     the rows the first one is about to store would store later rows first.
//  5. The transactions run on the connection that holds the lock of the sequencer. To end that
//     session undoes its open transaction, so nothing of it can be stored later.
//
// # Scans
//
// A scan reads the rows that the snapshot of the scan before did not contain. It finds them by the
// transactions that wrote them (look.sql). So deleted rows cost nothing, even while an old snapshot
// keeps vacuum from removing them. A full scan reads all rows: every dispatch.fallback_interval, and
// after a resync.
//
// # Which rows are rejected
//
// A row may contain what an HTTP producer may push, and has the same effects. created_at is the
// instant of sequencing. Other rows move to belfry.inbox_rejected with a code and a reason:
//
//   - invalid: a name or transaction id is too long, visible_at is more than a year away, or the
//     database refuses the row. The sequencer halves a refused batch until the row is alone.
//   - invalid: a text is not UTF-8, in a database whose encoding allows it. Such a row makes the scan
//     fail, so the database searches for it (readable.sql).
//   - invalid: some client cannot read the payload (pkg/engine/portable), unless http.allow_any_json is set.
//   - too_large: the payload exceeds http.max_body_bytes.
//   - queue_full: the queue holds maxSize messages.
//
// The producer has committed, so it cannot get the error, and to wait would block later rows. An
// error that no row causes, such as a full disk, rejects nothing and is retried.
//
// # Notifications
//
// A statement-level trigger sends a constant payload on a channel of the inbox. Postgres sends it
// once per transaction, after the rows are visible. Commits that notify run one after another in the
// whole cluster. So producers leave out the notification while the sequencer is awake.
//
//   - The sequencer becomes awake when two or more notifications arrive during a scan. It then scans
//     every 25 ms, until no scan has found more than one row for 0.1 s.
//   - A single commit notifies a sleeping sequencer, which scans at once.
//   - A session with belfry.notify = off neither notifies nor locks. Its rows move with other rows,
//     after SELECT belfry.wake(), or with the next full scan.
//   - While the listener is not proven, the sequencer scans every dispatch.max_poll_interval.
//
// docs/sql.md describes prepared transactions, logical replication and a full notification queue.
//
// # Why a sleeping sequencer misses no row
//
// There are three advisory locks besides the leader lock. SLEEP is held by the sequencer while it
// sleeps, on a session of its own (sleepConn). WATCH and AWAKE are held on the leader session and end
// with it.
//
//	producer      try SLEEP, shared, until the transaction ends; refused: notify
//	              try AWAKE, shared, and release it;             got it:  notify
//	              otherwise leave out the notification
//	wake up       take WATCH and notify all instances, in one statement; take AWAKE;
//	              release SLEEP
//	go to sleep   release AWAKE; wait for SLEEP; scan; release WATCH
//	take over     take WATCH and notify all instances; scan; go to sleep
//
// A producer P that leaves out its notification is found:
//
//  1. P holds SLEEP, shared, when it sees that a sequencer S holds AWAKE. P keeps SLEEP until its
//     rows are visible, because Postgres releases locks last.
//  2. S takes WATCH before AWAKE. S requests SLEEP only after it has released AWAKE, so S gets SLEEP
//     after P has ended.
//  3. S scans after it gets SLEEP and before it releases WATCH. That scan finds the rows of P.
//  4. If sleepConn dies and SLEEP ends with it, nothing changes: after S has released AWAKE, every
//     producer notifies, whether it gets SLEEP or not.
//  5. An insert after a savepoint that is rolled back loses SLEEP together with its rows, not before.
//
// The same holds if S dies first:
//
//  1. WATCH and AWAKE end with its session, so later producers notify.
//  2. S took WATCH before AWAKE, and the other instances were notified of it. They watch until two
//     looks in a row find no row and no WATCH, and S holds the leader lock when the second one
//     begins. So WATCH was released, and did not end with a dead session.
//  3. One of them takes over. It goes to sleep as above before it sleeps, so it waits for P too. If
//     there is no other instance, the next one that starts does so.
//  4. If S dies after it has released WATCH, no row without a notification is left.
//
// While the sequencer waits for SLEEP, Postgres refuses SLEEP to new producers, so they notify. The
// older ones end one by one. A producer that stays open for an hour costs the sequencer no queries.
// The other instances watch meanwhile, every 0.6 s. The waiting statement has a snapshot. It holds
// back vacuum no longer than the transaction of that producer does. A prepared transaction with such
// an insert counts until it ends.
//
// # Which instance is the sequencer
//
// The instance that holds the leader lock, on a session of its own. The others are on standby:
//
//  1. They hear the same notifications. After one they look every 0.6 s, while rows wait or the
//     sequencer holds WATCH.
//  2. If the leader lock is free, they take it.
//  3. If the first row is still the same and the leader session has waited for its client for one
//     second, the sequencer is frozen. They end its session. A slow database does not look frozen.
//  4. A sequencer that stops notifies them.
//
// Any session that may connect can take these locks. The doctor names such a session (foreign_locks). No row is lost:
//
//   - With the leader lock or WATCH, it keeps every instance from being the sequencer. An idle
//     session is ended as a frozen one is, if Belfry has the right to. If the first row has waited for
//     five seconds, a log line names the session and the statement that ends it, once a minute. The
//     error of an instance that cannot take WATCH names its holder. The status of the dispatcher shows
//     inbox.holder, belfry_inbox_sequencer is 1 nowhere, and belfry_inbox_oldest_seconds grows.
//   - With SLEEP, it keeps the sequencer from sleeping, as a long transaction does.
//   - With AWAKE, it makes producers leave out notifications although no sequencer is awake. While
//     a sequencer sleeps, they notify all the same. Without a sequencer, the rows wait for
//     dispatch.fallback_interval.
package inbox
