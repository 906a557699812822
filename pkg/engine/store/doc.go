// Package store runs the hot verbs: push, pop, ack, transaction, extend and release of a lease, and
// the wake after a commit. SQL keeps the invariants below, so a caller takes no lock and may call in any order.
// This package is the interface. The packages below internal hold the verbs:
//
//	push, claim, ack, transaction   the verbs
//	wake                            wakes, healing, settling
//	names                           ids of partitions and groups by name; epochs of the database
//	scanfloor                       where scans of the index by ready_at begin
//	quota                           admission to queues with a maxSize
//	delivered                       seqs of recently delivered messages
//	groupcommit                     how a failed flush is handled; metrics of flushes
//	pipeline                        several statements in one round trip
//	warm                            runs each statement once on a new connection, because the first run is slow
//
// docs/design.md describes the design: what a row means, the invariants I1 to I11 with their proofs, the
// locks, and what happens when the answer of a COMMIT is lost. This page adds details.
//
// # What a row means
//
// The SQL function belfry.ready_at holds the rule for cursor.ready_at, the earliest instant at which a
// pop of the group could get a message from the partition. The cursor stores only one input of that
// rule: retry_at, the end of the retry delay after a failure.
//
// A redriven message is a row of belfry.redrive, because the cursor has already passed its position in
// the log. The ack of a redriven message completes only this message and moves no cursor. The retry
// delay of a redriven message (redrive.retry_at) also delays later redriven messages. It does not
// delay earlier redriven messages, and it does not delay the log.
//
// # Locks
//
// These verbs are not in the table of docs/design.md:
//
//	wait for a rival, settle one cursor
//	                     cursor rows, in (partition, group) order
//	settle many cursors  cursor rows, with SKIP LOCKED
//
// A session that locks several dead letters does one of three things. It holds their cursors, or it
// skips locked dead letters (a purge), or it locks in id order dead letters that have no cursor.
//
// A wake must wait for locks. With SKIP LOCKED it would strand messages: it would skip a cursor that
// a claim has locked, and the claim may deliver no message from this cursor.
//
// # The invariants
//
// I3, nothing is stranded: the SQL function belfry.needs_wake decides which cursors need a wake after the commit. A settle
// is also a sleeper (docs/design.md). Heal finds stranded cursors after a lost wake: it compares last_seq with committed.
// If only the answer of a wake was lost, the cursor is ready without an announcement. So a lost connection causes a
// resync. A repeated push whose messages are already stored, and a sequencer that replaces another one, cause a resync for
// the same reason.
//
// I5, order, and I6, cursors only move forward: belfry.apply_acks holds the rules for the HTTP API and
// for SQL consumers. Redriven messages are delivered in seq order.
//
// I9, at least once, and bounded: deliveries before a redrive do not count towards maxDeliveries.
//
// # Routes to a claim
//
// Every claim runs belfry.claim, which returns rows of belfry.claim_row. In Go, every claim uses the
// same functions (internal/claim). The routes differ in the transaction in which the claim runs:
//
//	route               why the route exists
//	pop                 Group commit: one transaction for the pops of many callers. Its commit does not wait
//	                    for the disk. A pop by tags tries one queue after the other by this route.
//	pop with autoAck    A second group commit. Its commit waits for the disk, so it cannot share a
//	                    transaction with leases.
//	round               The dispatcher claims for many woken requests at once, on separate connections,
//	                    so that they never wait behind other requests.
//	handoff             In the pipeline of a push, after the commit and the wake, for requests that wait
//	                    for messages. It saves the round trips of a preflight and a round.
//	belfry.pop          In the transaction of a SQL consumer.
//
// The wait for a rival (store/claim_wait) locks one cursor and claims nothing.
//
// # A held snapshot
//
// Frequent statements find a row by its newest version (sql/functions/push/append.sql shows the shape),
// even if they then skip the row. Scans for due cursors begin at a floor (internal/scanfloor). So I8 has
// one limit. A scan can miss a cursor that another instance made ready by a statement that committed
// more than scanfloor.Margin after it began. The cursor is found when the announcement arrives. If that
// instance dies before it announces, the cursor is found after the resync that its silence causes, or by
// the next scan without floors. Pops by tags and rare statements use no floors.
//
// # SQL consumers
//
// belfry.pop makes a claim, and belfry.ack applies acks, in the transaction of a SQL consumer
// (sql/functions/consume). docs/sql.md describes the two ways in which a consumer works. If one
// transaction pops and acks, the row lock of the cursor keeps other consumers away. No other session sees
// the lease, but its length bounds the time from pop to ack.
//
// docs/sql.md describes how a long transaction affects other sessions. These are the details for
// other verbs:
//
//	push, wake       do not wait: a cursor that is due needs no wake
//	pop over HTTP    waits up to 1 s for the SQL consumer. Then it treats the cursor as leased, so it may answer
//	                 empty (I8). It probes again after 1 s, because a rollback is not announced.
//	sweep            skips the partition in this run
//	ack, transaction wait up to ack.Patience and are refused. Their own lease had ended before the
//	                 other session locked the cursor.
//
// Acks of contended cursors must not delay unrelated calls (I10), so they wait outside of the group
// commit (internal/ack). A call waits for one cursor and holds no other cursor meanwhile. Locking all
// cursors of a call in order would not deadlock either, but would block unrelated calls in the other
// partitions.
//
// I3 with SQL consumers: the store cannot run a wake after the commit of a consumer's transaction. So these
// transactions are never sleepers: for a drained cursor they set ready_at to now. This causes one extra
// probe. Either a claim over HTTP settles the cursor, or an instance settles it after the notification of
// the commit, at most one page per wake.SettleInterval. Both are sleepers, and a wake follows each of them.
// belfry.pop skips such cursors, and reads one index entry for each. If belfry.pop takes no message, it
// rolls its claim back to a savepoint, which also releases the lock of the cursor.
//
// The scan floors of the instances do not take into account a lease that is committed long after it was
// taken, or after its end. So belfry.pop and belfry.extend announce the cursor at the commit. The
// announcement has ready_at, except if ready_at is less than ten seconds ahead (belfry.announce_ready).
// belfry.pop keeps a separate scan floor in a setting of its session (load_scan_floor).
//
// belfry.await writes nothing. The LISTEN of the session and its notification to the instances take
// effect with the same commit. So the session receives every notification that an instance sends for it.
// Each instance then probes. The probe sees a push that committed between belfry.pop and this commit. A
// later push is announced (package dispatch). Every role that can connect can notify, so a notification
// for a SQL waiter makes no instance register a group.
//
// A claim uses the clock at its beginning. It does not use statement_timestamp(), because a procedure
// or a DO block that pops in a loop has only one statement_timestamp(). belfry.pop never waits, and
// belfry.ack waits for one cursor. A transaction that pops and then acknowledges an older lease can
// deadlock with an ack of several cursors. Postgres rolls back one of the two transactions, and no
// message is lost.
//
// # Clock and plans
//
// The clock of the database decides. Conditions use statement_timestamp(), which is stable;
// clock_timestamp() is volatile, so Postgres would not use the index. Each statement has one good plan,
// and the session settings of the pool rule out the others (pkg/postgres). A test checks the plans on an
// empty schema and with 100,000 partitions.
package store
