// Package check judges a run of Belfry from outside: given what clients did and
// were told (test/chaos/history) and what the tables hold in the end, it names
// every operation that breaks a promise of the engine.
//
// It promises not to accuse the innocent: an operation of unknown outcome may
// have happened at any time after it began, or not at all, and between the
// beginning and the end of an operation nothing is known of when it took
// effect. A breach is reported only when no order of events explains what was
// seen. What that leaves open goes unreported.
//
// # The rules
//
//	stored      a push answered with success is in the log, a refused one is not (I1)
//	dedup       a transaction id has one message id everywhere, and one push at most was told that it is new (I7)
//	unpushed    nothing is stored or delivered that nobody pushed
//	push-order  what was answered before another push began stands before it, and so do the items of one push (I2)
//	delivered   every stored message was delivered to every group or dead-lettered for it (I1, I9)
//	early       nothing is delivered before its delay is over
//	leftover    after the drain every cursor is at the end of its log (I3, I9)
//	order       positions within a delivery ascend, and nothing but dead letters is between them (I5)
//	skipped     a delivery starts at or before the first message that cannot be done (I2, I5)
//	again       what was accepted as completed, dead-lettered or consumed by autoAck is not delivered by a later pop (I6)
//	atomic      of a transaction all pushes are stored and all acks count, or none, also if it is acks alone
//	dead        dead letters are those that acks asked for, and all that acks were promised (I9)
//	lease       no two leases of one partition and group are alive at a time (I4)
//	cursor      cursors and the ends of logs never fall (I6)
//	counts      seqs, last_seq, committed and consumed add up
//	stuck       nobody waits longer than the bound for what is ready, or to be told of it (I3, I8)
//	seek        a cursor is sought to where somebody asked, and every seek that was answered with success moved it
//	fenced      nothing is accepted under a lease that a seek, or the deletion of its group, had ended
//	rejoined    a group that was deleted is another one at its next pop, and begins at the beginning
//	deleted     what is missing was deleted: by its name because somebody asked, or by a sweep when it was old enough,
//	            completed by all if that is the reason, and under no lease that was alive; and it comes no more
//	expired     what expired had waited long enough
//	swept       what sweeps count, read and unread, is what they did
//	removed     a partition that was removed held nothing, and nothing had been pushed to it for long enough
//	erased      a queue that is deleted takes all its messages along, and only those; and they come no more
//
// # Seeks, and groups that are deleted
//
// Triggers write down every cursor that is made, sought or falls, in one order with
// the leases it gives (Watch). So each lease, and with it what was delivered and
// acknowledged under it, belongs to one generation of its cursor, whatever the
// client knows of the seek. A generation is judged as a reader of its own: it begins
// at the place of its move with what it skips there, order holds in it, what is done
// in it does not come again in it, and what its cursor passed before the next move
// was delivered or dead. In the last one everything that follows its place is
// delivered. A lease that a crash of the database forgot is in none, and nothing is
// known of what was delivered under it. Without moves in the state a seek ends what
// is known of a cursor.
//
// # Logs that lose messages
//
// The triggers also write down each message that is deleted: by what, how old it was,
// whether some group had not passed it, and whether a lease held it. The log of a
// partition is what is there together with that, and must have no holes. A message
// may be passed over from the beginning of the first request to delete it, and in a
// queue with retentionSeconds from that age on; completedRetentionSeconds excuses
// nothing; maxWaitTimeSeconds is as retentionSeconds, but takes only what some group
// has not passed, and what a lease of one group holds by then the others pass over
// too. What a queue lost when it was deleted is left out of the history of the
// one that has its name now.
//
// A partition that was removed is judged as one of its own: its messages say which of
// those of one name an operation was about. Who waited by the name waited for each.
//
// # What is put back
//
// A group that is not sought is given a message that was put back when all of a
// delivery may be that. With one that is, the log may deliver the same, so the triggers
// say which it was. What is put back is no matter of a generation: it comes in
// whichever there is, and nothing of it says that the log was passed.
//
// # What it relies on
//
// Queues have neither delay nor window (messages may have delays), payloads can be
// opened, and dead letters are not purged. What queues lose is pushed once. Groups
// that are sought or deleted do not consume at once, and dead letters of those that
// are deleted are not put back. A pop of unknown outcome that was autoAck may have consumed one
// run of messages in each partition of its queue, and so may one that was answered
// while a fault broke connections of servers: they claim again when the answer to a
// claim is lost. An ack without a lease id counts
// as any other. A redrive puts back all
// dead letters of its group in its queue, or in its partition; they come in
// deliveries of their own, whose acks are for single messages.
//
// A push by SQL is stored some time after its answer, behind those by SQL that were
// answered before it began.
//
// All rules together take time in n log n of the items of the history.
//
// It is for tests and commands below test; nobody else imports it.
package check
