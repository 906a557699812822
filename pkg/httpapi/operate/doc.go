// Package operate has the routes with which operators change state:
//
//   - configure, pause and delete queues
//   - seek, pause and delete groups
//   - delete single messages; redrive and purge dead letters
//   - retry and discard rejected rows of the inbox, and rejected messages of the spool
//   - turn maintenance on and off
//
// It promises that a request that is refused with 400 changes nothing, and that each change begins a row of the audit. A
// purge, a redrive and a selection of rejected rows refuse unknown parameters. If they ignored a misspelled filter, they would
// change more than the operator wants.
//
// docs/compatibility.md lists the answers that clients of Queen MQ expect. The package declares the interfaces that it calls.
// Only pkg/httpapi imports it.
package operate
