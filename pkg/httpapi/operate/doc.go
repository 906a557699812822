// Package operate has the routes that change state for operators: configure, pause and delete queues; seek, pause and
// delete groups; redrive, purge, retry and delete messages, dead letters, and rejected rows and pushes; and the switches for
// maintenance.
//
// It promises that a request that is refused with 400 changes nothing, and that each change begins a row of the audit. A
// purge, a redrive and what selects rejected rows refuse unknown parameters, because to ignore a misspelled one would select
// more.
//
// docs/compatibility.md lists the answers that clients of Queen MQ expect. The package declares the interfaces it calls.
// Only pkg/httpapi imports it.
package operate
