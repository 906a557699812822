// Package observe has the routes that only read, for people, dashboards and monitors:
//
//   - lists and states of queues, groups, messages and traces
//   - problems, the examination of the doctor, and the explanation why a message does not arrive
//   - the audit and the history of all instances
//   - the stream of events
//
// It promises:
//
//   - No request changes state.
//   - A token with grants sees only the queues that the grants allow, and no figures of processes. This is also true for a
//     stream, which ends when the token expires or is revoked.
//   - In the routes that Queen MQ does not have, the numbers of queues and groups are exact. All requests share one count of
//     them (pkg/insight/totals), and countedAt is its instant.
//   - pagination.next leads to all elements that one request could not read. Apart from the count, the cost of a route that
//     Queen MQ does not have does not grow with the database. A request for the history reads a limited number of buckets.
//
// docs/compatibility.md lists the answers that clients of Queen MQ expect. Members that have no meaning in Belfry are 0 or
// empty. docs/events.md describes the events. The package declares the interfaces that it calls. Only pkg/httpapi and the
// packages deadletters, operate and queen import it.
package observe
