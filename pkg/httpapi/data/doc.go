// Package data serves the requests of producers and consumers: push, pop, also as a stream of events,
// ack, transaction, the extension of a lease, traces, and the cycles of streams.
//
// It promises that
//
//   - a payload leaves byte for byte as it came: key order, number text, escapes
//     and white space inside it. A \u0000 inside a payload is kept too; only SQL
//     that converts that very string to text refuses it;
//   - a request that is refused with 400 stores nothing;
//   - a delivery that could not be written to its client is released at once.
//
// docs/compatibility.md lists the answers that clients of Queen MQ expect. The
// package declares the verbs it calls. Only pkg/httpapi imports it.
package data
