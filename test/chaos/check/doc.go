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
//	atomic      of a transaction all pushes are stored and all acks count, or none
//	dead        dead letters are those that acks asked for, and all that acks were promised (I9)
//	lease       no two leases of one partition and group are alive at a time (I4)
//	cursor      cursors and the ends of logs never fall (I6)
//	counts      seqs, last_seq, committed and consumed add up
//	stuck       nobody waits longer than the bound for what is ready (I3, I8)
//
// # What it relies on
//
// Logs lose no messages during the run (no retention, no deletion of queues),
// queues have neither delay nor window (messages may have delays), payloads can be opened, and dead letters
// are not purged. A pop of unknown outcome that was autoAck may have consumed one
// run of messages in each partition of its queue; an ack without a lease id counts
// as any other. Seek ends what is known of a cursor. A redrive puts back all
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
