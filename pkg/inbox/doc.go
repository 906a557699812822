// Package inbox lets programs that speak only SQL push: whoever commits a row of
// belfry.inbox, in a transaction of its own, has pushed a message. The sequencer
// moves such rows into their partitions. It is one of the instances, and another
// one takes over within two seconds of the first row that it leaves lying. Run from
// pkg/app; importable from floor 3 upwards.
//
// # What is promised
//
// Committed is pushed, once; rolled back (to a savepoint, too) is nothing. A
// message is stored by the transaction that deletes its row (Store.Sequence): they
// happen both or not at all. The delete must find all of its rows, else the
// transaction fails (belfry.inbox_take). So however many sequencers there are, and
// wherever one dies or freezes, each row is stored once. A COMMIT whose answer is
// lost needs no care: the next look finds the rows or does not. This is what
// correctness rests on; the lock below only saves work.
//
// That transaction waits for the disk, though the producer's has: a crash that forgot
// it would bring the rows back, but a message that a consumer has seen would come
// again under another id and perhaps at another place.
//
// Order. Within a partition, messages of one transaction come in the order of their
// inserts, and so do those of two transactions of which one inserted after the
// other had committed (because it waited for a row of it, say). Ids are given out in
// the order of the inserts, each look is one snapshot, read from its lowest id
// on, and all of it is stored before the next look. A snapshot that holds an
// insert holds whatever had been committed before that. What is not promised is
// anything about transactions that were open at the same time: their rows get their
// seq after their commit, behind what was stored meanwhile. So no row comes up
// behind a cursor, and one that commits late delays nobody (I2).
//
// That is also why rows that are locked are waited for and not skipped: a second
// sequencer that skipped those the first is about to store would store those behind
// them first. And it is why the sequencer's transactions run on the connection that
// has the lock: to end that session undoes what it had begun, and nothing
// of it can come later.
//
// Nobody waits. Producers share no lock with each other, with pushes over HTTP or
// with consumers. A transaction may stay open for as long as it likes: its rows are
// not seen, and cost nothing. A look reads what the snapshot of the one before did
// not hold, found by the transaction that wrote it (inbox_look.sql). What was
// deleted since is not passed over again, even when an old snapshot keeps it from
// being vacuumed. Every dispatch.fallback_interval, and when the listener was in
// doubt, a look reads everything.
//
// # What a row may be
//
// What an HTTP producer may push. Everything a queue can do is done, since it is
// Store's push that stores it: queues and partitions are made, a transaction_id
// deduplicates within its partition, payloads are sealed, delays (visible_at,
// delayedProcessing) hold, maxSize is respected, and whoever waits is woken or
// handed the message. created_at is the instant of sequencing.
//
// A row that cannot be stored goes to belfry.inbox_rejected, with a code and a
// reason: a name or transaction id that is too long or a visible_at more than a
// year away (invalid), a payload above http.max_body_bytes (too_large), a queue that
// holds its maxSize (queue_full). The producer has committed and cannot be
// told, and waiting would hold up what is behind. So the row is kept, those behind
// it go on, and belfry.inbox_retry puts it back, at the end, once that makes
// sense. belfry_inbox_rejected_rows and the status of the dispatcher show it. When
// the database refuses one of many for another reason, they are taken apart until it
// stands alone. What is not the fault of a row (no disk, no right) rejects nothing
// and is tried again.
//
// # Who wakes the sequencer
//
// A statement-level trigger notifies with a constant payload on a channel of its
// own; Postgres sends one per transaction. The listener hears it after the rows are
// visible. Commits that notify go one at a time through the whole cluster. Many
// rows in a transaction share one. A session that sets belfry.notify = off sends
// none; its rows go with those of others, or after SELECT belfry.wake(), or with
// the look at dispatch.fallback_interval. It is also what a transaction needs that
// is to be prepared, since Postgres prepares none that has notified. Rows that
// logical replication brings fire no such trigger. While the listener is not
// proven the sequencer looks every dispatch.max_poll_interval. Nothing is asked
// while nothing happens. A commit on its own is seen at once; while they come one
// after the other there is a look every 10 ms, for all of them together.
//
// # Who is the sequencer
//
// Whoever has a session-level advisory lock, on a connection of its own. The others
// hear the same notifications. When they hear one they look, every 0.6 s while rows
// wait, whether the lock is free, because its holder died, and whether its holder is
// frozen: the first row is still the same and the session has been waiting for its
// client for a second. Then they end that session. A slow database does not look
// frozen. One that stops says so.
package inbox
