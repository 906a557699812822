// Package check judges a run of Belfry from outside. Its input is the history of what clients did and were answered
// (test/chaos/history), and the tables at the end. Its output names each operation that breaks a promise of the engine.
//
// It promises no false alarm. An operation of unknown outcome may have happened at any time after it began, or not at
// all. An operation of known outcome may have taken effect at any time between its begin and its end. A breach is
// reported only when no order of events explains the observations. Everything else goes unreported.
//
// Package model predicts the only right answer of each verb and runs one verb at a time on the store. This package predicts nothing:
// it accepts every answer that some order of concurrent operations explains, lost answers and faults included. So the rules of an
// ack are in both, but the model has them as a next state, and a checker of histories cannot compute one.
//
// # The rules
//
//	stored      a push answered with success is in the log, a refused one is not (I1)
//	dedup       a transaction id has one message id everywhere, and at most one push was answered that it is new (I7)
//	unpushed    each stored or delivered message was pushed
//	push-order  a message answered before another push began stands before that push; items of one push keep their order (I2)
//	delivered   every stored message was delivered to every group or dead-lettered for it (I1, I9)
//	early       no message is delivered before its delay is over
//	leftover    after the drain every cursor is at the end of its log (I3, I9)
//	order       positions within a delivery ascend, and only dead letters are left out between them (I5)
//	skipped     a delivery starts at or before the first message that cannot be settled (I2, I5)
//	again       a message completed, dead-lettered or consumed by autoAck is not delivered by a later pop (I6)
//	atomic      all pushes of a transaction are stored and all its acks count, or none; also without pushes
//	dead        dead letters are those that acks asked for, and all that acks were promised (I9)
//	lease       no two leases of one partition and group are alive at a time (I4)
//	cursor      cursors and the ends of logs never decrease (I6)
//	counts      seqs, last_seq, committed and consumed add up
//	stuck       no consumer waits longer than the bound for a ready message, or for the wake about it (I3, I8)
//	seek        a cursor is sought only to where a client asked, and every successful seek moved it
//	fenced      nothing is accepted under a lease that a seek, or the deletion of its group, had ended
//	rejoined    a deleted group is a new group at its next pop, and begins at the first message
//	deleted     each missing message was deleted by name on request, or by a sweep when it was old enough, read by all
//	            groups if that is the reason, and under no live lease; it is not delivered again
//	expired     each expired message had waited long enough
//	swept       the counters of sweeps, read and unread, equal what sweeps did
//	removed     a removed partition was empty, and no push had arrived for long enough
//	erased      a deleted queue takes all its messages along, and only those; they are not delivered again
//
// # Terms
//
// A lane is the checker's view of one partition. A partition that was removed and created again is another lane. A
// reader is one group in one lane. An ordinal counts the messages ever stored in a lane, from 1.
//
// # Seeks, and groups that are deleted
//
// Triggers record each cursor that is created, sought or moved back, in one order with the leases that it gives
// (Watch). So each lease, with its deliveries and acks, belongs to one generation of its cursor, whatever the client
// knows of the seek. Each generation is judged as a reader of its own:
//
// 1. It begins at the target of its move, with the messages skipped there.
// 2. The rules order and again hold within it.
// 3. Each message that its cursor passed before the next move was delivered or dead-lettered.
// 4. In the last generation, every later message is delivered.
//
// A lease that a crash of the database forgot belongs to no generation, and its deliveries are not judged.
//
// # Logs that lose messages
//
// Triggers also record each deleted message: the reason, its age, whether some group had not passed it, and whether a
// lease held it. The log of a partition is the rows together with the deleted messages. It must have no holes.
//
//   - After the first request to delete a message by name, groups may pass over it.
//   - With retentionSeconds, groups may pass over messages of that age. completedRetentionSeconds excuses nothing.
//   - With maxWaitTimeSeconds, the same holds for messages that some group has not passed. If a lease of one group holds
//     such a message, the other groups pass over it too.
//   - The messages that a deleted queue lost do not belong to the history of the next queue of that name.
//
// A removed partition is a lane of its own. The message decides which lane of a name an operation concerns. A pop that
// waited by name waited for each lane of that name.
//
// # Redrives
//
// If the group is never sought, a delivery counts as a redelivery when all its messages may have been redriven. If the
// group is sought, the log may deliver the same messages again, so triggers record which messages each lease
// redelivered. A redelivery belongs to no generation: it arrives in the current one, and shows nothing about the
// cursor.
//
// # Promotions
//
// A synchronous standby can be promoted without commits that were visible on the primary: their wait for the standby
// was canceled, so they were never acknowledged. The history has each such promotion (history.Rewound).
//
//   - A delivery meanwhile is not judged if its lease is not in the tables and no ack under it was accepted. Claims
//     do not wait for the standby, and a lease that is there shows that the standby has all that its claim saw.
//   - Samples taken meanwhile are not judged, and no consumer is late meanwhile.
//   - Everything answered with success was confirmed by the standby, and is judged like everything else. So are pops with
//     autoAck.
//
// # Preconditions
//
//   - Queues have neither a delay nor a window. Messages may have delays.
//   - Payloads are readable, and dead letters are not purged.
//   - In queues that lose messages, each message is pushed once.
//   - Sought and deleted groups do not use autoAck. Dead letters of deleted groups are not redriven.
//   - A redrive returns all dead letters of its group in its queue or its partition. Their deliveries contain nothing
//     else, and each ack of them settles a single message.
//   - An autoAck pop of unknown outcome may have consumed one run of messages in each partition of its queue. Dead letters
//     do not end the run. The same is true of an answered one during a fault that breaks connections: the server claims
//     again when the answer to its claim is lost.
//   - An ack without a lease id counts like any other.
//   - A push by SQL is stored some time after its commit, behind the pushes by SQL committed before it began.
//
// All rules together take time in n log n of the items of the history.
//
// Only tests and commands below test import this package.
package check
