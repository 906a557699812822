// Package store runs the hot verbs: push, pop, ack, transaction, extend and release of a lease, and
// the wake after a commit. It keeps the invariants below in SQL: a caller needs no lock and no order.
// This package is the interface. The rooms below internal hold the verbs:
//
//	push, claim, ack, transaction   the verbs
//	wake                            wakes, healing, settling
//	names                           ids of partitions and groups by name; epochs of the database
//	scanfloor                       where scans of the index by ready_at begin
//	contention                      cursors that other sessions hold for long
//	quota                           admission to queues with a maxSize
//	delivered                       positions of recently delivered messages
//	groupcommit                     what becomes of a failed flush; metrics of flushes
//	pipeline, keyedmutex            several statements in one round trip; a mutex for each key
//
// Importable from floor 3 upwards.
//
// # What a row means
//
// A partition is an append-only log. seq numbers its messages without gaps as they are stored. A
// cursor is the position of a consumer group in a partition: every message up to committed is done.
// ready_at is the earliest instant at which a pop of the group could get a message from the
// partition:
//
//	nothing beyond the cursor, or paused     NULL
//	messages waiting, no lease               an instant in the past
//	leased                                   lease_until
//	first message delayed, or window open    the end of the delay or window
//	retry delay after a failure (retry_at)   the end of the delay
//	redriven messages                        the earlier of the first one and the log
//
// So the end of a lease needs no sweep. One index (group_id, ready_at) answers what a group can pop
// now, and when the next cursor is due, however many partitions there are. The SQL function
// belfry.ready_at holds the rule. Of these instants only retry_at is stored, in the cursor.
//
// A redriven message is a row of belfry.redrive, because its place in the log is behind the cursor or
// skipped by it. A claim delivers redriven messages before the log, in seq order, in a delivery of
// their own under the one lease of the cursor. Each of them is acknowledged alone and moves no cursor.
// The retry delay of a redriven message (redrive.retry_at) delays the redriven messages after it. It
// does not delay those before it, nor the log.
//
// # Who locks what
//
//	push                 partition rows, in id order
//	sequence             rows of the inbox, in id order, then as push
//	transaction          partition rows, in id order, then cursor rows, as ack
//	delete a message; trim, remove or close a partition
//	                     the same two, in that order
//	ack, wake            cursor rows, in (partition, group) order
//	ack of a contended cursor
//	                     that cursor alone, then the free ones with SKIP LOCKED
//	pop                  cursor rows as they come, with SKIP LOCKED: it waits for none
//	wait for a rival, settle one cursor, release, extend, seek, redrive
//	                     cursor rows, in (partition, group) order
//	settle many cursors  cursor rows, with SKIP LOCKED
//	change of options    cursor rows with SKIP LOCKED, then the others, one at a time
//	belfry.pop           cursor rows with SKIP LOCKED; it keeps those it took messages from until
//	                     the consumer's transaction ends
//	belfry.ack, belfry.extend
//	                     one cursor row
//
// A session that locks a queue does so before all these locks. Dead letters come last. A session that
// locks several dead letters holds their cursors, or (a purge) skips locked ones, or works in id order
// where no cursor is left.
//
// No deadlock:
//
//  1. No transaction waits for a partition while it holds a cursor.
//  2. All sessions that wait for partitions wait in one order. The same holds for cursors.
//  3. A session that locks in another order never waits while it holds a lock.
//  4. A message is inserted under the lock of its partition, and a dead letter under the lock of its
//     cursor. So inserts add no waits.
//
// A wake must wait for locks. With SKIP LOCKED it would strand messages: a claim may hold the lock of
// a row that changed and that it does not return, and a wake would skip that row.
//
// # The invariants
//
// I1, nothing acknowledged is lost. Push and ack answer after COMMIT with synchronous_commit on. Only
// a lease is committed without waiting for the disk. A crash that loses a lease leads to a redelivery.
//
// I2, commit order is delivery order. A push numbers its messages while it holds the row lock of the
// partition, and keeps the lock until COMMIT. The next owner of the lock commits later and numbers
// higher. So each snapshot of a log is a prefix of it, and no message commits behind a cursor.
// created_at is taken under the same lock and never falls.
//
// I3, nothing is stranded: a cursor without a lease whose partition has messages beyond it does not
// keep ready_at NULL. A sleeper is a transaction that leaves ready_at NULL: an ack or an autoAck pop
// that saw nothing left, a settle, a new cursor, a seek, a change of options, the deletion of a message.
// A transaction that leaves ready_at at the end of a retry delay of redriven messages, with nothing left
// in the log, is a sleeper too (belfry.needs_wake). A sweep is no sleeper: it holds the partition, so no
// push commits at the same time. A wake of the partition follows each push and each sleeper, after its
// commit. Suppose that all of them have finished and a cursor is stranded:
//
//  1. ready_at is NULL and committed is below last_seq.
//  2. Let S be the last sleeper, P the push that stored last_seq, and W the wake after the later of
//     the two commits. The snapshot of W contains both.
//  3. Only a sleeper moves committed of a cursor that ends with NULL, and only a later sleeper could
//     undo a ready_at that is not NULL. So W sees the cursor as S left it, and it sees last_seq: the
//     cursor is a candidate of W.
//  4. W locks the cursor, waits if it must, and reads the newest version. A version newer than that of
//     S would need a later sleeper, by the same argument. But S is the last one.
//  5. So W sets ready_at, or finds that the end of a retry delay is right. Where the group has not
//     started yet (start_at), W moves the cursor to last_seq instead. This contradicts 1.
//
// If W did not run, because the process died or lost its connection, the partition waits for its next
// push, or for Heal. Heal runs at the start and after each lost connection, and compares last_seq with
// committed. If only the answer of W was lost, the cursor is ready without an announcement. So a
// lost connection is a reason for a resync. So is a push that finds itself stored, and the start of a
// sequencer in place of another one.
//
// I4, one lease. A claim needs ready_at in the past under the row lock, and a live lease keeps ready_at
// in the future. Ack, extend and release compare the lease id under the lock.
//
// I5, order, and I6, cursors only move forward: the rules of acks, which belfry.apply_acks holds for
// the HTTP API and for SQL consumers. Dead letters have lost their place in the order. Redriven messages
// come in seq order among themselves.
//
// I7, deduplication. A statement of its own looks for stored transaction ids after the partition is
// locked, so its snapshot contains every message ever stored there. A unique index enforces the same.
//
// I8, empty means empty. A pop that found nothing although something was due has lost a race. It waits
// until the winner has finished and looks again. It answers empty only when nothing was due.
//
// I9, at least once, and bounded. A claim counts an attempt and a failed ack counts a failure. At the
// queue's retryLimit or maxDeliveries the message becomes a dead letter of the group, and the group
// skips it. A release counts nothing. For redriven messages the deliveries count from the redrive on.
//
// I10, strangers do not hurt each other. Calls share transactions. A flush that fails because of a
// value is split until only the call with the value fails. Each answer comes after its COMMIT.
//
// I11, unrelated pushes write no shared row. A push writes its messages and the rows of its
// partitions, and a wake the cursors of these partitions. So maxSize has no counter (internal/quota).
//
// # Routes to a claim
//
// Every claim runs belfry.claim, returns belfry.claim_row, and in Go goes through the same functions
// (internal/claim). The routes differ in what they share a transaction with:
//
//	route               why it is a route of its own
//	pop                 Group commit: one transaction for the pops of many callers. It does not wait
//	                    for the disk. A pop by tags tries one queue after the other by this route.
//	pop with autoAck    A second group commit. A consumption waits for the disk, so it cannot share a
//	                    transaction with leases.
//	round               The dispatcher claims for many woken requests at once, on connections of their
//	                    own, so that they never wait behind ordinary traffic.
//	handoff             In the pipeline of a push, after its commit and wake, for requests that wait
//	                    for this push. It saves the round trips of a preflight and a round.
//	belfry.pop          In the transaction of a SQL consumer.
//
// The wait for a rival (store/claim_wait) locks one cursor and claims nothing.
//
// # Transactions
//
// A transaction of pushes and acks commits alone, because a refused one is rolled back. The first of
// its two round trips stores the messages and applies the acks. The second one commits or rolls back.
// Between the two it holds its partitions, so everything that can be refused without a lock is refused
// before. It uses the statements, the lock order and the wakes of push and ack.
//
// # Group commit
//
// Pushes, acks and claims each have a manager (pkg/batch): the first call leaves at once, and calls
// that come while it is in flight leave together. Calls that touch the same partition are never in two
// flushes at a time, so flushes do not wait for each other's locks.
//
// When the answer of a COMMIT is lost:
//
//	push          It is sent again with the same message ids, and finds itself stored or not.
//	claim         Its lease is released by its id, before a repetition or by Run.
//	ack           It is not repeated. The caller hears that the database is unavailable and may send
//	              it again: an ack that was applied already changes nothing.
//	transaction   With pushes it is sent again, and recognises itself by the fingerprint in its
//	              message ids, also when its client sends it again. With acks alone it is like an ack.
//
// The messages of an autoAck pop whose answer is lost are consumed.
//
// # A held snapshot
//
// While a session of the database holds a snapshot, Postgres removes no old row version, and cursors
// and partitions get a new version with every message. Frequent statements must cost the same all the
// same. They find a row by its newest version (sql/functions/push/append.sql shows the shape), also
// when the row is locked or unwanted. Scans for due cursors begin at a floor (internal/scanfloor). So I8
// has one limit. Suppose that another instance makes a cursor ready by a statement that commits more
// than scanfloor.Margin after it began. The cursor is found when the announcement arrives; if the
// instance dies before, after the resync that its silence causes, or by the next scan without floors.
// Pops by tags and rare statements use no floors.
//
// # SQL consumers
//
// belfry.pop and belfry.ack are the claim and the rules of acks in the transaction of a SQL consumer
// (sql/functions/consume). A consumer works in one of two ways:
//
//   - Pop and ack in one transaction. Effects and acknowledgment commit together, and the row lock of
//     the cursor keeps other consumers away. Nobody sees the lease, but its length bounds the time from
//     pop to ack. A rollback, a crash or a lost connection undoes the delivery: the messages are due at
//     once, and no attempt counts. So maxDeliveries does not see a message that always kills its
//     consumer. A consumer that catches the error in a savepoint can ack 'failed' and commit.
//   - Pop in a transaction of its own. The lease is like any other. After its end the ack fails (BF010),
//     and its transaction with it: the fence of I4. A crash counts as an attempt.
//
// What a long transaction means for others:
//
//	push, wake       do not wait: a cursor that is due needs no wake
//	pop over HTTP    waits up to 1 s for a rival. Then it counts the cursor as leased, so empty is right
//	                 (I8), and looks again after 1 s: a commit is announced, a rollback is not.
//	sweep            skips the partition this time
//	seek, redrive, change of options, deletion of a message
//	                 wait until the time of the request is up
//	ack, transaction wait up to contention.Patience and are refused. Their own lease was over before the
//	                 other session took the cursor.
//	creation of a partition
//	                 waits for a transaction with the first pop of a group; belfry.subscribe registers a
//	                 group in a transaction of its own
//
// Acks of contended cursors must not delay strangers (I10). The flush waits ack.LockPatience once. Then
// it applies its calls that touch no contended cursor. The others wait by themselves, in a manager
// whose flushes hold only calls of the very same cursors, on few connections, in turns. A call of
// several partitions waits for one cursor, holds nothing meanwhile, and then takes what is free. Waiting
// for all its cursors in order would be free of deadlocks too, but it would block strangers in the
// other partitions. A transaction holds partitions as well: it gives way after ack.LockPatience, waits
// for the cursor in the same way, and begins again.
//
// I3 with SQL consumers: the store cannot run a wake after the commit of a consumer's transaction. So these
// transactions are never sleepers. Where nothing is left they set ready_at to now. That costs one probe
// too many: a claim over HTTP, or the settling that each instance runs when it hears the commit, every
// wake.SettleInterval at most. Both are sleepers with a wake after them. belfry.pop skips such cursors
// at the price of an index entry each. A belfry.pop that takes nothing rolls its claim back to a
// savepoint, which also releases the lock.
//
// A lease that is committed long after it was taken, or after its end, is unknown to the scan floors of
// the instances. So belfry.pop and belfry.extend announce the cursor at the commit, with its ready_at.
// belfry.pop keeps a scan floor of its own in a setting of its session (load_scan_floor, save_scan_floor).
// It does so only after a scan that took more than 2 ms, for twenty times as long and at most 10 s. What
// a transaction of more than half a second makes due may be hidden from that session until then.
//
// belfry.await writes nothing. It listens on a channel whose name stands for what the session waits for,
// and notifies the instances. LISTEN and the notification take effect with the same commit, so the
// session hears everything that an instance sends. A push between its pop and that commit is seen by the
// probe that each instance makes then, or is announced (package dispatch). Anybody who may connect may
// notify, so an instance registers no group for a SQL waiter.
//
// A claim uses the clock at its beginning, not statement_timestamp(), which stands still in a procedure
// or a DO block that pops in a loop. belfry.pop never waits, and belfry.ack waits for one cursor. A
// transaction that pops and then acknowledges an older lease may be in a cycle with an ack of several
// cursors; Postgres ends one of the two, and nothing is lost. In REPEATABLE READ and SERIALIZABLE a pop
// that meets a change since its snapshot fails (40001). Sealed payloads stay sealed (BF011).
//
// # Clock and plans
//
// The clock of the database decides. Conditions use statement_timestamp(), which is stable;
// clock_timestamp() is volatile and would keep the index from being used. Each statement has one
// sensible plan, and the session settings of the pool leave the planner no other (pkg/postgres). A test
// reads the plans back on an empty schema and with 100,000 partitions.
package store
