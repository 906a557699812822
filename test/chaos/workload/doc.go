// Package workload has the clients of a chaos run. Many producers and consumers use Belfry over HTTP and SQL,
// correctly and incorrectly, and record every operation. A seed determines the random choices, but not the timing.
//
//   - Producers repeat pushes of unknown outcome with the same transaction ids. They never repeat pushes without ids.
//   - Producers by SQL use transactions with savepoints. Some transactions are rolled back or stay open for a while.
//     Other clients write to an attached table.
//   - Consumers are slow, fail, disappear, hang until their leases end, and acknowledge twice or under ended leases.
//     Some complete messages and push other messages in one transaction, and repeat the transaction.
//   - Two workers of a streams client sum the messages of windows. They forget deliveries, are late, and send cycles
//     twice.
//   - Consumers by SQL pop, acknowledge and wait for a wake.
//   - Operators redrive dead letters, seek and delete groups, and delete messages and queues.
//   - Some queues lose messages by retention. In one queue, idle partitions are removed. These queues and their
//     groups are separate, so that the rules stay strict for all others.
//   - Some clients continuously send malformed bodies, and requests with invalid tokens, tokens of another tenant, or
//     tokens with too few rights. They know ids of messages and leases of other clients. The servers store nothing
//     that they send.
//
// A complaint is an answer that is wrong even during faults.
package workload
