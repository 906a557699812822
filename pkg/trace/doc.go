// Package trace stores events that consumers record about a message while they handle
// it. An event has data and any number of names. The traces with one name show a flow
// through several queues in order.
//
// A trace belongs to its message and is deleted with it. Deleting a queue deletes its
// traces page by page. Storing a trace takes a share lock on the row of the message and
// wakes no consumer. Lists continue after a position, so the cost of a page does not
// depend on the number of traces before it.
//
// Importable from floor 3 upwards.
package trace
