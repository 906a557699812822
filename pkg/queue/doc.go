// Package queue holds the words of Belfry: what a queue, a partition, a
// message, a consumer group, a lease and an error code are.
//
// It is the ground floor: pure data, no I/O, no clock, importable by every
// package. Whoever needs a new word puts it here once, under the name of the
// glossary, and every other room speaks it.
package queue
