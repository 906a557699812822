// Package data serves the requests of producers and consumers: push, pop, streams of messages, ack,
// transaction, the extension of a lease, traces, and the cycles of stream clients.
//
// It promises:
//
//   - A payload is delivered with the bytes of the push: key order, number text,
//     escapes and white space inside it. A payload may contain \u0000. Only SQL
//     that converts a string with \u0000 to text fails.
//   - A request that is refused with 400 stores nothing.
//   - If a delivery cannot be written to its client, its lease is released at once.
//
// docs/compatibility.md lists the answers that clients of Queen MQ expect. The
// package declares the interfaces that it calls. Only pkg/httpapi imports it.
package data
