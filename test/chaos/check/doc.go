// Package check judges a run of Belfry from outside. Its input is the history of the requests and answers of all
// clients (test/chaos/history), and the tables at the end. Its output names each operation that breaks a promise of
// the engine.
//
// The package makes no false alarm. An operation of unknown outcome may have happened at any time after it began, or
// not at all. An operation of known outcome may have taken effect at any time between its begin and its end. The
// package reports a breach only if no order of events explains the observations.
//
// Package model predicts the only correct answer of each verb, and runs one verb at a time on the store. Package
// check predicts nothing: it accepts every answer that some order of concurrent operations explains, with lost
// answers and faults. So both packages contain the rules of an ack. In model these rules compute the next state. A
// checker of histories cannot compute the next state.
//
// # The rules
//
//	stored      a push answered with success is in the log, a refused one is not (I1)
//	dedup       a transaction id has one message id everywhere, and at most one push was answered that it is new (I7)
//	unpushed    each stored or delivered message was pushed
//	push-order  a message answered before another push began precedes it in the log; items of one push keep their order (I2)
//	delivered   every stored message was delivered to every group or dead-lettered for it (I1, I9)
//	early       no message is delivered before its delay is over
//	leftover    after the drain every cursor is at the end of its log (I3, I9)
//	order       positions within a delivery ascend, and only dead letters are left out between them (I5)
//	skipped     a delivery starts at or before the first message that cannot be settled (I2, I5)
//	again       a message completed, dead-lettered or consumed by autoAck is not delivered by a later pop (I6)
//	atomic      all pushes of a transaction are stored and all its acks take effect, or none of them
//	dead        each dead letter was requested by an ack, and each dead letter that an ack reported exists (I9)
//	lease       no two leases of one partition and group are alive at a time (I4)
//	cursor      cursors and the ends of logs never decrease (I6)
//	counts      seqs, last_seq, committed and consumed add up
//	stuck       no consumer waits longer than WakeBound while a message is ready (I3, I8)
//	seek        a seek moves a cursor only to a requested position, and every successful seek moves it
//	fenced      nothing is accepted under a lease after a seek, or the deletion of the group, ended the lease
//	rejoined    the next pop of a deleted group creates a new group, which begins at the first message
//	deleted     each missing message was deleted by name on request, or by a sweep: it was old enough, no live lease held
//	            it, and, for completedRetentionSeconds, all groups had passed it; it is not delivered again
//	expired     each expired message had waited long enough
//	swept       the counters of sweeps equal the recorded deletions and expiries
//	removed     a removed partition was empty, and no push had arrived for long enough
//	erased      the deletion of a queue deletes all its messages and no others; they are not delivered again
//
// # Terms
//
// A lane is the checker's view of one partition. A removed partition that is created again becomes another lane. A
// reader is one group in one lane. The ordinal of a message is its number among all messages ever stored in the lane,
// from 1.
//
// # Seeks, and groups that are deleted
//
// Triggers record each cursor that is created, sought or moved back, and each lease, in one order (Watch). So each
// lease, with its deliveries and acks, belongs to one generation of its cursor, whether or not the client knows the
// result of the seek. The checker treats each generation as a separate reader:
//
// 1. A generation begins at the target of its move. It may skip the messages that the move skipped.
// 2. The rules order and again hold within the generation.
// 3. Each message that the cursor passed before the next move was delivered or is a dead letter.
// 4. In the last generation, each later message is delivered.
//
// A lease that the database lost in a crash belongs to no generation. The checker does not check its deliveries.
//
// # Logs that lose messages
//
// Triggers also record each deleted message: the reason, its age, whether some group had not passed it, and whether a
// lease held it. The log of a lane consists of the rows and the deleted messages. It must have no holes.
//
//   - After the first request to delete a message by name, groups may skip the message.
//   - With retentionSeconds, groups may skip messages of that age. completedRetentionSeconds allows no skips.
//   - With maxWaitTimeSeconds, groups may skip messages of that age that some group has not passed. If a lease of one
//     group holds such a message, the other groups skip it too.
//   - The messages of a deleted queue do not belong to the history of the next queue with that name.
//
// A removed partition is a separate lane. The message of an operation decides to which lane of a name the operation
// belongs. A pop that waited for a partition by name waited for each lane of that name.
//
// # Redrives
//
// If a group is never sought, a delivery counts as a redelivery if all its messages may have been redriven. If a
// group is sought, the log may deliver the same messages again, so triggers record the messages that each lease
// redelivered. A redelivery belongs to no generation: it arrives in the current generation, but proves nothing about
// the cursor.
//
// # Promotions
//
// The promotion of a synchronous standby can lose commits that were visible on the primary. The server canceled the
// wait of these commits for the standby, so it never acknowledged them. The history has each such promotion
// (history.Rewound).
//
//   - The checker ignores a delivery during the promotion if its lease is not in the tables and no ack under the
//     lease was accepted. Claims do not wait for the standby. A lease in the tables shows that the standby has
//     everything that its claim read.
//   - The checker ignores samples and late deliveries during the promotion.
//   - The standby confirmed everything that was answered with success, so the checker checks it like everything else.
//     This includes pops with autoAck.
//
// # Preconditions
//
//   - Queues have neither a delay nor a window. Messages may have delays.
//   - Payloads are readable, and dead letters are not purged.
//   - In queues that lose messages, each message is pushed once.
//   - Sought and deleted groups do not use autoAck. Dead letters of deleted groups are not redriven.
//   - A redrive returns all dead letters of its group in its queue or its partition. A delivery of redriven messages
//     contains no other messages, and each ack of them settles a single message.
//   - An autoAck pop of unknown outcome may have consumed a sequence of messages in each partition of its queue. Dead
//     letters do not end the sequence. During a fault that breaks connections, this also applies to a pop with an
//     answer: if the answer to its claim is lost, the server claims again.
//   - An ack without a lease id counts like an ack with a lease id.
//   - A push by SQL is stored some time after its commit, after all pushes by SQL that committed before it began.
//
// For n items in the history, all rules together take O(n log n) time.
//
// Only tests and commands below the folder test import this package.
package check
