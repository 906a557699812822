package notify

import "github.com/belfry-mq/belfry/pkg/process/heap"

// list holds tickets. The lock guards it.
type list[K comparable] struct {
	entry *entry[K] // nil: the list of all tickets
	refs  heap.Heap[ref[K]]
	// ordered: the ticket that wakes first is first.
	ordered bool
}

// ref is a ticket in a list. Its index and the place of the membership point at each other, so a
// ticket leaves a list of 10,000 tickets without a search.
type ref[K comparable] struct {
	ticket *Ticket[K]
	index  int // in ticket.memberships
}

// add adds a membership of t.
func (l *list[K]) add(t *Ticket[K]) {
	t.memberships = append(t.memberships, membership[K]{list: l})
	l.refs.Put(ref[K]{ticket: t, index: len(t.memberships) - 1})
}

// Before implements heap.Element.
func (r ref[K]) Before(other ref[K]) bool {
	return r.ticket.memberships[r.index].list.ordered && r.ticket.before(other.ticket)
}

// Place implements heap.Element.
func (r ref[K]) Place() *int { return &r.ticket.memberships[r.index].place }

// before reports whether t wakes before u.
func (t *Ticket[K]) before(u *Ticket[K]) bool {
	if t.idle != u.idle {
		return t.idle
	}
	if t.deadline.Equal(u.deadline) {
		return t.number < u.number
	}
	return t.deadline.Before(u.deadline)
}
