// Package queue declares the types that several packages share: queue, partition, message, consumer group, lease and error code.
//
// The package has only data and does no I/O. Every package may import it. The type of a value that two packages exchange
// belongs here. A type that only one package uses belongs to that package.
package queue
