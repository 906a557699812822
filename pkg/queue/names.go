// Package queue holds the words of Belfry: what a queue, a partition, a message,
// a consumer group, a lease and an error code are.
//
// It is pure data, without I/O and without a clock. Two rooms that exchange a
// value declare its type here, once, under the standard term. A type that only
// one room uses belongs to that room.
//
// It is on floor 0 and importable by every package.
package queue

// DefaultGroup is the consumer group of a request that names none ("queue mode"). It is stored like
// any other group.
const DefaultGroup = "__QUEUE_MODE__"

// DefaultPartition is the partition of a push that names none.
const DefaultPartition = "Default"

// Limits of names and of transaction ids. See docs/compatibility.md.
const (
	MaxNameBytes          = 255
	MaxTransactionIDRunes = 255
)
