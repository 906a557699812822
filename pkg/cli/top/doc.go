// Package top shows on one screen of a terminal what a server does: its instances, and the queues with their rates,
// waiting requests, lag and dead letters.
//
// The figures come from the stream of events. Only the columns PENDING and DEAD are read from the database, at the start
// and when the user asks. So an open screen costs the database nothing while nothing happens.
//
// It may import pkg/client and pkg/cli/output.
package top
