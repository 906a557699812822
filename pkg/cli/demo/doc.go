// Package demo runs a small shop on a server, so that a newcomer sees queues that live: orders that come all the time, a
// consumer that is too slow, one that fails now and then, and dead letters that wait for a redrive.
//
// It may import pkg/client.
package demo
