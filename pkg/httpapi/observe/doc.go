// Package observe has the routes that only read: lists and states of queues, groups, messages, dead letters and traces; what
// is wrong and why a message does not arrive; the audit; the history of all instances; and the stream of what happens.
// People, dashboards and monitors read them.
//
// It promises that
//
//   - no request changes anything;
//   - a token with grants sees its queues only, and no figures of processes, also in a stream, which ends when the token
//     expires or is revoked;
//   - the numbers of queues and groups are exact in the routes that Queen MQ does not have: they come from one count that all
//     requests share, and countedAt is its instant (pkg/insight/totals);
//   - pagination.next leads to everything that one request could not read. Apart from that count, the cost of routes that Queen
//     MQ does not have does not grow with the database, and a request for the history reads a bounded number of buckets.
//
// docs/compatibility.md lists the answers that clients of Queen MQ expect, and the members without a meaning in Belfry, which
// are 0 or empty. docs/events.md describes the events. The package declares the interfaces it calls. Only pkg/httpapi and the
// packages operate and queen import it.
package observe
