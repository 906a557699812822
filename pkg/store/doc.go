// Package store holds the hot verbs, one file each: push, pop, ack, extend and
// release a lease, and the wake that follows a commit. It promises the
// invariants below in SQL; whoever calls it needs no lock and no order.
//
// Importable from floor 3 upwards.
//
// # What a row means
//
// A partition is an append-only log; seq numbers its messages without gaps as
// they are stored. A cursor is a consumer group's place in it: everything up to
// committed is done. ready_at is the earliest instant at which a pop of this
// group could get something from this partition:
//
//	nothing beyond the cursor, or paused     NULL
//	messages waiting, no lease               an instant in the past
//	leased                                   lease_until
//	head delayed, window open                the instant it ends
//	resting after a failure (retry_at)       the instant it ends
//
// A dead letter that was put back (redriven) is a row of belfry.redrive, since its
// place in the log lies behind the cursor, or is skipped by it. While a cursor has
// such rows it is due; a claim delivers them before the log, in seq order, in a
// delivery of their own under the one lease of the cursor. Each is acknowledged
// for itself and moves no cursor. Cursors without redrives pay nothing for it.
//
// One that failed rests by the queue's retryDelay, as a message of the log does
// (redrive.retry_at). What was redriven comes in seq order among itself, so those
// behind it wait for it, and those before it do not; the log, in whose order it has
// no place, goes on meanwhile. With redrives ready_at is the earlier of two
// instants, that of the first of them and that of the log.
//
// So expiry needs no sweeper, and one index (group_id, ready_at) answers "what
// can this group pop" and "when is the next thing due" however many partitions
// there are. The rule is written once, in the SQL function belfry.ready_at. Of its
// instants only retry_at is stored (in the cursor) and not computed, so whatever
// computes ready_at anew hands it in.
//
// # Who locks what
//
//	push         partition rows, in id order
//	sequence     rows of the inbox, in id order, then as push
//	transaction  partition rows, in id order, then cursor rows, in that of ack
//	delete a message, trim, remove or close a partition: the same two, in that order
//	ack          cursor rows, in (partition, group) order
//	wake         cursor rows, in (partition, group) order
//	pop          cursor rows, as they come, with SKIP LOCKED: it never waits
//	ack of what somebody holds: one cursor row, and when it has that, those that
//	             are free, with SKIP LOCKED
//	claim_wait, settle, release, extend, seek, redrive: cursor rows in that same order
//	rearm        cursor rows, with SKIP LOCKED, then those that were held, one at a time
//	belfry.pop   cursor rows, as they come, with SKIP LOCKED, and keeps those of
//	             which it took something until the consumer's transaction ends
//	belfry.ack, belfry.extend: one cursor row
//	settle_told  cursor rows, with SKIP LOCKED
//
// Whoever locks a queue does so before all that. Dead letters come last: who takes
// several holds their cursors, or (a purge) passes over what somebody works on, or
// works where no cursor is left, in id order.
//
// A push may carry claims for requests that wait for it (queue.Handoff). They run
// after the wake and its commit, each for itself, as pops do.
//
// No transaction holds a cursor lock while it waits for a partition lock.
// Everyone who waits for partition locks waits in one order, everyone who waits
// for cursor locks waits in one order, and whoever takes them in another order never
// waits while holding one. So there is no cycle, and no deadlock. Transact is bound by it:
// whatever the order of its operations, it locks all partitions it pushes to,
// then all cursors it acknowledges with. The rows it inserts make nobody wait who
// does not wait for one of those locks already: a message is inserted under its
// partition's lock, a dead letter under its cursor's.
//
// (A prototype's waiting wake deadlocked with pop, and was given SKIP LOCKED
// instead. That shape strands messages: a claim whose candidate changed under it
// holds the lock of a row it does not return, a wake skips that row, and neither
// comes back. Waiting in order is both simpler and provable.)
//
// # The invariants
//
// I1, nothing acknowledged is lost. Push and ack answer after COMMIT, with
// synchronous_commit on. Only a lease is committed without waiting for the disk:
// a crash that forgets it leads to a redelivery.
//
// I2, commit order is delivery order. A push numbers its messages while it holds
// the partition's row lock, and keeps it until its commit. Whoever gets the lock
// next commits later and numbers higher. Hence what any snapshot sees of a log
// is a prefix of it, and a cursor can never pass a message that is still to be
// committed. created_at is taken under the same lock and never falls.
//
// I3, nothing is stranded: a cursor without a lease whose partition has messages
// beyond it does not keep ready_at NULL. Proof. Call a transaction a sleeper if
// it leaves ready_at of the cursor NULL (an ack or an autoAck pop that saw
// nothing left, a settle, a new cursor, a seek, a rearm, the deletion of a message); or, for
// all that follows the same, at the end of a rest of redriven messages with nothing
// left in the log, which belfry.needs_wake tells by the row. A sweep
// is none: it holds the partition, so no push commits beside it. Every push and every sleeper is
// followed, after its commit, by a wake of the partition. Suppose that all have
// finished and the cursor is stranded: ready_at is NULL and committed is below
// last_seq. Let S be the last sleeper and P the push that stored last_seq, and W
// the wake after the later of the two commits. The snapshot of W sees both
// commits, so it sees the cursor as S left it, since what turns
// NULL into something else leaves it so until a later sleeper, and only a sleeper
// moves committed of a cursor that ends up NULL; and it sees last_seq. So the cursor is a candidate of W. W locks
// it, waiting if it must, and reads its newest version. Had that changed since
// the snapshot, then either to non-NULL, and a later sleeper would have had to
// put it back, or by a later sleeper: both contradict that S is the last. So W
// writes ready_at (or finds, at the end of a rest, that it says what W would write),
// or, where the group has not started yet (start_at), moves the cursor over
// everything up to last_seq, behind which nothing is left. This
// contradicts the supposition. If W was never run (the
// process died between the commit and the wake, or lost its connection) the
// partition waits for the next push to it or for Heal, which runs at the start
// and whenever a connection broke, and goes by last_seq > committed. If only the
// answer of W was lost, the cursor is awake and nobody heard of it: a broken
// connection is a reason for doubt, and so are a push that finds itself stored and an
// instance that becomes the sequencer in another's place.
//
// I4, one lease. Taking one requires ready_at in the past under the row lock,
// and a live lease keeps it in the future. Ack, extend and release compare the
// lease id under the lock.
//
// I5 and I6, order and cursors that only move forward: decideAck, and
// greatest() in ack_apply.sql. A dead letter has lost its place in the order; what
// is redriven comes in seq order among itself, resting or not (redelivery.go).
//
// I7, dedup. The look for a stored transaction id runs in a statement of its own
// after the partition is locked, so its snapshot holds all that was ever stored
// there; the unique index stands behind it.
//
// I8, empty means empty. A pop that found nothing although something was due
// when it began lost a race. It waits until the winner has finished and looks
// again (claim_wait.sql), and answers empty only when nothing was due at all.
//
// I9, at least once, and bounded: a claim counts an attempt, a failed ack a
// failure; at the queue's retryLimit the message is dead-lettered for the group
// and skipped by it, and so it is at its maxDeliveries. A release counts nothing.
// What is redriven is bounded alike; its deliveries count from the redrive.
//
// I10, strangers do not hurt each other. Calls share transactions (below), but one
// that fails for a value is taken apart until only the call with that value has
// failed; the others have their own results, each after the COMMIT.
//
// I11, no shared row is written by unrelated pushes: a push writes its messages
// and its partitions' rows, a wake the cursors of those partitions. Therefore
// maxSize has no counter: what waits is computed now and then (rooms), and instances
// together may exceed it by what the others stored since.
//
// # A held snapshot
//
// While any session of the database holds a snapshot, Postgres removes no old
// version of anything, and cursors and partitions get a new one with every
// message. What runs often must cost the same all the same. Rows are found by
// their newest version (migration 000011 tells how), which is the answer also where
// it is locked or not what is wanted (000028), and looks for what is due
// begin at a floor, below which nothing is due any more (floors.go). A floor is a
// belief of this process: it is lowered by whatever this instance or another one
// announces as ready, to the instant at which it became so, and dropped with every
// doubt and once a minute. So I8 has one limit: what another instance made ready
// by a statement that committed more than floorMargin after it began is found when
// its bell rings; when it died before that, when its silence is a reason for doubt, or at
// the next look without floors. Pops by tags, and what runs seldom, know no floor.
//
// # Transactions
//
// A transaction of pushes and acks commits alone: one that is refused is rolled
// back, and must take nobody along. It takes two round trips, and holds its
// partitions for the second one, which is why what can be refused without a lock
// is refused before. The first stores the messages and reads the cursors; the
// same rules as those of a call of Ack then judge in memory, and the second
// writes. Everything above holds for it as for a push and an ack: its messages
// get their seqs under the partition's lock, which it keeps to the commit, and a
// wake of all it touched follows.
//
// # Group commit
//
// Pushes, acks and claims go through a manager each (pkg/batch): the first leaves
// at once, and what comes while it is in flight leaves together. Calls that touch
// the same partition never are in two flushes at a time, so flushes do not wait
// for each other's locks.
//
// A COMMIT whose answer is lost is handled by what it was for. A push is sent
// again with the same message ids, and finds itself stored or not. A lease of
// unknown outcome is given back by id before the claim is repeated, and by Run when it
// is not; all tries have the same id. An ack is not repeated: its caller hears that the
// database is away, and may send it again: one that was done already changes nothing. A
// transaction with pushes is sent again and finds itself by their message ids, also when
// it is its client that sends it again (stampIDs); one of acks alone is as an ack.
// Messages that autoAck consumed in a transaction whose answer was lost are gone, as
// they would be if the answer of the pop were.
//
// The places of what was delivered lately are remembered by lease, so most
// acknowledgments find their messages without the database (delivered). The rules
// of an ack are always judged on the locked cursor.
//
// # What is remembered
//
// The ids of partitions and groups are remembered by name, and whoever waits holds one
// for hours. That something was deleted is told by the statements that use its id. But
// an id may come to stand for something else: where a standby without the last commits
// takes over, where files or tables are put back, or made anew, under servers that run
// on, it is given away a second time. So what is remembered counts for one life of the
// database (belfry.epoch: when Postgres was started, and which file the table of
// partitions is). A push, a claim and a preflight say which life their ids are of, and in
// another one all of them are gone; then names are looked up again, everything of the
// life before is forgotten, and all who wait look, also at other instances (reborn). An
// ack need not: it is for a UUID, and a cursor whose partition has another one is not
// its own.
//
// Rows of the inbox (pkg/inbox) are moved by Sequence, on a connection of the
// caller's and not with the pushes of others. Only sequencers lock them, before
// anything else and in id order.
//
// # Consumers in SQL
//
// belfry.pop and belfry.ack (migration 000015) are the claim and the rules of an ack
// in a transaction that is somebody else's. They are for two ways to work.
//
// Popped and acknowledged in one transaction, effects and acknowledgment commit
// together, and the lock of the cursor's row is what keeps others off. The lease
// is seen by nobody; its length still bounds the time from pop to ack. A rollback,
// a crash or a lost connection undoes the delivery: the messages are due at once,
// and it was no attempt. So a message that always brings its consumer down comes
// again for ever, and maxDeliveries cannot see it: whoever catches the error in a
// savepoint says belfry.ack(lease, status => 'failed') and commits.
//
// Popped in a transaction of its own, the lease is a lease like any other; the
// acknowledgment fails (BF010), and the effects beside it with it, once the lease
// is over: the fence of I4. A crash is an attempt.
//
// What lasts is felt by others. Others pass over a cursor that an open transaction
// holds: a push does not wait for it, nor does a wake, whose candidates sleep while
// it is due. A pop over HTTP waits for a rival for rivalPatience and then takes it
// as leased: empty is right (I8), because what is held is not poppable for it. It
// looks again every heldLook: a commit is heard, a rollback is not. A sweep gives
// such a partition up for this time (sweep_trim.sql). What changes the cursor
// itself waits until the request's time is up: a seek, a redrive, an option
// that moves what is ready, the deletion of one message, which lets go of the partition
// in between. The ack of a consumer whose lease was over before waits for ackPatience
// and is refused, and so is a transaction (below). So transactions are best kept
// short, and a group is best
// served by one kind of consumer. The first pop of a group registers it, and keeps
// partitions from being made in that queue until its transaction ends:
// belfry.subscribe does it before.
//
// An ack that meets such a cursor must not take strangers along (I10). The flush it
// is in waits for lockPatience, once; then those of its calls that touch nothing
// held are applied (applyFree), and the others wait by themselves, in a manager of
// their own (newHeld) whose flushes hold only calls of the very same cursors. It has
// few connections, which they use in turns. A call of several partitions waits for
// one cursor with nothing in hand and then takes what is free: so it keeps its other
// cursors from strangers only for as long as it is applied. (Waiting in order for
// all of them would be free of deadlocks as well, but then the acks of strangers to
// the other partitions would lose lockPatience each, and wait behind it.) Whoever
// touches a cursor that was found held goes there without waiting in a flush
// (heldCursors). A transaction holds partitions as well: it gives way after
// lockPatience, waits for the cursor in the same way, and begins anew.
//
// I3 needs a wake after each commit that leaves a cursor asleep, and no wake can
// follow a stranger's commit. So these transactions are never sleepers: where
// nothing is left of the log they leave ready_at at now. That is a look too many and nothing
// worse; whoever looks is a claim over HTTP, or settlePage, which the service runs
// when it hears the NOTIFY of the commit (Told), every 25 ms at most, and both are
// sleepers with a wake behind them. If nobody hears, belfry.pop passes over such
// cursors for the price of an index entry each. belfry.pop itself leaves nothing
// asleep either: where it takes nothing it undoes its claim (a savepoint), and with
// it the lock.
//
// A lease that is committed long after it was taken, or is over by then, is one that
// nobody has looked for: others know no instant before it (floors.go). So pop and
// extend, too, are told of at the commit, with the instant (belfry.announce_ready).
//
// While somebody holds a snapshot a look without a floor walks all that was ever due
// (floors.go). Nobody tells a session what others make ready, so belfry.pop keeps a
// floor only after a look that took more than 2 ms, for twenty times as long and at
// most ten seconds, as a setting of its session (migration 000027). It lies no higher
// than what that look saw, be it held by others or empty, and half a second before
// the statement. What a transaction makes due that lasts longer than that is hidden
// from such a session until its floor is over; the service hears the commit, as ever.
//
// They wait by belfry.await (migration 000030), which writes nothing: it listens on a
// channel of what is waited for, and notifies the instances of it. LISTEN and the
// notification come into force with the same commit, so whatever an instance tells
// is heard. A push between the pop and that commit is seen by the look that each instance
// makes then, or announced to it before or after (package dispatch). An instance registers no group for it: anybody
// who may connect may notify.
//
// A claim goes by the clock at its beginning and not by statement_timestamp(), which
// stands still in a procedure or a DO block that pops in a loop.
//
// No deadlock: belfry.pop never waits, and belfry.ack waits for one cursor which,
// its lease being live, nobody holds for long. A transaction that pops, keeps what
// it got, and then acknowledges an older lease may be in a cycle with an ack of
// several cursors; Postgres ends one of the two, and nothing is lost.
//
// In REPEATABLE READ and SERIALIZABLE a pop that meets a change since its snapshot
// fails (40001) instead of passing over it. Payloads that are sealed stay sealed
// (BF011).
//
// # Clock and plans
//
// The database's clock decides. Conditions use statement_timestamp(), which is
// stable; clock_timestamp() is volatile and would keep the index from being
// used. Each statement has one sensible plan and the pool's session settings
// leave the planner no other (see pkg/postgres); a test reads them back on an
// empty schema and on 100,000 partitions.
package store
