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
// transaction fails (belfry.inbox_delete). So however many sequencers there are, and
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
// stands alone. In a database with encoding SQL_ASCII any bytes are a text; one that is not
// UTF-8 cannot be handed out by a look, with what is behind it, so it is searched for by the
// database (inbox_readable.sql) and rejected as invalid. What is not the fault of a row (no disk, no right) rejects nothing
// and is tried again.
//
// # Who wakes the sequencer
//
// A statement-level trigger notifies with a constant payload on a channel of its
// own; Postgres sends one per transaction. The listener hears it after the rows are
// visible. Commits that notify go one at a time through the whole cluster, so the
// trigger leaves it out while the sequencer is awake, which is when two or more
// have come within a look: then it looks every 25 ms, until for 0.1 s no look has
// found more than one row. A commit on its own is announced, and seen at once.
//
// A session that sets belfry.notify = off never notifies and takes no lock; its rows
// go with those of others, or after SELECT belfry.wake(), or with the look at
// dispatch.fallback_interval. It is also what a transaction needs that is to be
// prepared, since Postgres prepares none that has notified. Nor does anybody notify while
// the cluster's queue of notifications is nearly full: one too much fails the
// transaction. Rows that logical replication brings fire no such trigger. While the
// listener is not proven the sequencer looks every dispatch.max_poll_interval. Nothing is
// asked while nothing happens.
//
// # Why no row is left behind asleep
//
// There are three advisory locks beside that of the sequencer. SLEEP belongs to the
// sequencer while it sleeps, on a session for nothing else (the bed). MARK and
// AWAKE are on the session with the lock of the sequencer, and end with it.
//
//	producer    try SLEEP, shared, until the transaction ends: no → notify
//	            try AWAKE, shared, and give it back:           yes → notify
//	            otherwise leave it out
//	wake up     take MARK and tell all instances, in one statement; take AWAKE;
//	            give back SLEEP
//	lie down    give back AWAKE; wait for SLEEP; look; give back MARK
//	take over   take MARK and tell all instances; look; lie down
//
// Who notifies is heard, as ever. Take a producer that leaves it out. It has
// SLEEP, shared, when it sees that some sequencer has AWAKE, and keeps SLEEP until its
// transaction has ended and, since Postgres lets go of locks last, is visible. That
// sequencer has MARK from before AWAKE. It gives MARK back after it has had SLEEP
// for itself, which it asks for after AWAKE. So the producer, who saw AWAKE, has
// ended before that, and the look in between finds its rows: it never sleeps on them.
// Had the bed died and its lock with it, nothing would change: who
// comes after AWAKE was given back notifies whether it gets SLEEP or not. An insert
// behind a savepoint that is rolled back loses SLEEP with its rows, not before.
//
// If the sequencer dies first, the two locks end with its session, so whoever comes
// notifies again, and what was not announced is for the next one, which
// lies down as well before it sleeps and so waits for the same producers. There is a
// next one: MARK came before AWAKE, and the others were told of it, so they
// watch from then on, until two looks in a row have found neither rows nor MARK and
// somebody had the lock of the sequencer when the second began: MARK was given back,
// and not lost by a death. If there is nobody, whoever starts does the same. A
// sequencer that dies with MARK given back has left nothing unannounced.
//
// While a sequencer waits for SLEEP, new producers do not get it: Postgres refuses
// a conditional lock also because of somebody who waits. So they notify, and the
// others end one by one. One that stays open for an hour costs no queries of the
// sequencer (the other instances watch meanwhile, every 0.6 s), nobody waits
// for it, and rows are heard of and moved as if it slept; when many come, it
// stops waiting and is awake again. The wait is a statement with a snapshot, which keeps
// vacuum from nothing that the producer it waits for does not keep it from. A
// transaction with such an insert can be prepared, and counts until it ends.
//
// # Who is the sequencer
//
// Whoever has a session-level advisory lock, on a connection of its own. The others
// hear the same notifications. When they hear one they look, every 0.6 s while rows
// wait or the sequencer has MARK, whether the lock is free, because its holder died, and whether its holder is
// frozen: the first row is still the same and the session has been waiting for its
// client for a second. Then they end that session. A slow database does not look
// frozen. One that stops says so.
//
// Anybody who may connect may have these locks. A stranger with the first one, or with MARK,
// keeps every instance from being the sequencer: rows lie in the inbox, nothing is lost.
// When it is idle and Belfry may see that and end it (it has the same role, say), it is
// ended as a frozen one is. Otherwise, when the first row has been lying for five seconds,
// a warning names the session and what ends it, once a minute; who has MARK is named in
// the failure of whoever tries to lead. inbox.holder in the status of the dispatcher names
// it too, belfry_inbox_sequencer is 1 nowhere, and belfry_inbox_oldest_seconds grows. A
// stranger with SLEEP costs the sleep, as a producer does whose transaction stays open.
// One with AWAKE makes producers leave out notifications that nobody awake stands in
// for: while some sequencer sleeps or lies down they notify all the same, but when
// none is there, the next one comes with dispatch.fallback_interval.
package inbox
