// Package queue holds the words of Belfry: what a queue, a partition, a message,
// a consumer group, a lease and an error code are.
//
// It is pure data, without I/O and without a clock. Two packages that exchange a
// value declare its type here, once, under the standard term. A type that only
// one package uses belongs to that package. Every package may import it.
package queue
