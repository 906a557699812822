// Package workload is the clients of a chaos run. Many producers and consumers use Belfry over HTTP and SQL, correctly
// and incorrectly, and record every operation. A seed determines their choices, but not the timing.
//
//   - Producers repeat pushes of unknown outcome with the same transaction ids. They never repeat pushes without ids.
//   - Producers by SQL use transactions with savepoints, and sometimes roll back or stay open. Others write to an
//     attached table.
//   - Consumers are slow, fail, disappear, hang until their leases end, and acknowledge twice or under ended leases. Some
//     complete messages and push others in one transaction, and repeat it.
//   - Two workers of a streams client sum the messages of windows. They forget deliveries, are late, and send cycles twice.
//   - Consumers by SQL pop, acknowledge and wait for a wake.
//   - Operators redrive dead letters, seek and delete groups, and delete messages and queues.
//   - Some queues lose messages by retention, and in one idle partitions are removed. These are separate queues and
//     groups, so that nothing is excused for the others.
//   - Some clients send malformed bodies all the time, and requests with tokens that are invalid, of another tenant or of
//     a role that is too low. They know ids of messages and leases of others. Nothing that they send is stored.
//
// An answer that no client expects is a complaint.
package workload
