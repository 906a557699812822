// Package workload is the clients of a chaos run: many producers and consumers
// that use Belfry over HTTP, well and badly, and write down every operation. What
// they do is chosen by a seed; when they do it is up to the machine.
//
// Producers repeat pushes of unknown outcome with the same transaction ids, and
// push without ids, which they never repeat. Some push by SQL, in transactions with
// savepoints that they roll back or leave open now and then, some by writing to an
// attached table. Some consumers pop and acknowledge by SQL, and wait to be told.
// Consumers are slow, fail, vanish, hang past their leases and acknowledge twice or with leases that are
// gone. Some hand on what they got in transactions, which they repeat as they were,
// and an operator puts dead letters back. Others move and delete consumer groups
// that are there for it, put their dead letters back meanwhile, delete messages, and delete queues; queues with retention
// lose messages by themselves, and in one partitions are removed. That happens aside, so that nothing is excused
// elsewhere.
// Somebody sends bodies that are malformed all the time. None of it may make the
// server answer in a way that no client expects: such answers are complaints.
package workload
