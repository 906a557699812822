// Package demo runs a small shop on a server, so that a newcomer sees queues at work. The shop has a steady flow of
// orders, a consumer that is too slow, a consumer that fails now and then, and dead letters that need a redrive.
//
// It may import pkg/client.
package demo
