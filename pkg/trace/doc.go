// Package trace keeps what consumers note about a message while they handle it:
// an event with data, under any number of names, so that a flow through several
// queues can be read in order.
//
// A trace belongs to its message and goes with it: when the message is deleted,
// and, in pages, when its queue is. It takes no lock but a share of the message's
// row and wakes nobody. Lists are paged by place, so none of them costs more for
// what lies before it.
//
// Importable from floor 3 upwards.
package trace
