package notify

import (
	"time"

	"github.com/belfry-mq/belfry/pkg/process/heap"
)

// ByTimer is the cause of a wake at a scheduled instant.
const ByTimer = "timer"

// Ticket is the right to be woken once. A waiter takes a ticket before it looks.
type Ticket[K comparable] struct {
	notifier    *Notifier[K]
	c           chan struct{}   // closed to wake the waiter
	wake        Wake[K]         // written before c is closed
	accepted    bool            // used only by the waiter
	deadline    time.Time       // of an exclusive ticket
	idle        bool            // under the lock
	number      uint64          // tickets taken later have higher numbers
	memberships []membership[K] // under the lock; nil: woken or closed
}

// Wake says why a ticket woke.
type Wake[K comparable] struct {
	Cause string
	// Keys are the keys of the Announce call, or the key whose instant was reached. Nil: a shared ticket woke, or all tickets
	// woke.
	Keys []K
}

// firstKey is the index of the membership for the first key of a ticket. The list of all tickets is before it.
const firstKey = 1

// membership is the position of a ticket in a list.
type membership[K comparable] struct {
	list  *list[K]
	place int // in list.refs
}

// entry holds the tickets of a key. The lock guards all of it.
type entry[K comparable] struct {
	key K
	// Announce wakes the first exclusive ticket and all shared tickets.
	exclusive, shared list[K]
	due               due
	// extended are the keys that Extend gave to the tickets of key. Later tickets do not have them. It has at most as many keys as
	// the Notifier.
	extended map[K]bool
	// newest is the number of the last ticket that named the key.
	newest uint64
}

// empty reports whether no ticket is left.
func (e *entry[K]) empty() bool { return len(e.exclusive.refs)+len(e.shared.refs) == 0 }

// Ticket returns a shared ticket. It wakes at the next announcement of one of its keys, at the scheduled instant of one of its
// keys, and at BroadcastAll. A ticket without keys wakes only at BroadcastAll. The caller must Close it. Ticket does not block.
func (n *Notifier[K]) Ticket(keys ...K) *Ticket[K] {
	return n.take(keys, &Ticket[K]{}, func(e *entry[K]) *list[K] { return &e.shared })
}

// Exclusive returns a ticket for a waiter that takes what it finds. An announcement or a scheduled instant wakes one exclusive
// ticket of a key. The order is: idle tickets first (SetIdle), then the earliest deadline, then the oldest ticket.
//
// The woken waiter must look. If it cannot look, or if something may be left after its look, it must forward the wake by calling
// Announce again. If the waiter does not call Accept, Close forwards the wake.
func (n *Notifier[K]) Exclusive(deadline time.Time, keys ...K) *Ticket[K] {
	return n.take(keys, &Ticket[K]{deadline: deadline}, func(e *entry[K]) *list[K] { return &e.exclusive })
}

// take completes the ticket and adds it to one list of each key.
func (n *Notifier[K]) take(keys []K, t *Ticket[K], listOf func(*entry[K]) *list[K]) *Ticket[K] {
	t.notifier, t.c = n, make(chan struct{})
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return t
	}
	n.tickets++
	t.number = n.tickets
	t.memberships = make([]membership[K], 0, 1+len(keys))
	n.all.add(t)
	for _, key := range keys {
		if e := n.entryLocked(key); e.newest != t.number { // otherwise keys has the key twice
			e.newest = t.number
			listOf(e).add(t)
		}
	}
	return t
}

// entryLocked returns the entry of the key. It creates a missing entry. The caller adds a ticket to it.
func (n *Notifier[K]) entryLocked(key K) *entry[K] {
	e := n.entries[key]
	if e == nil {
		if n.entries == nil {
			n.entries = make(map[K]*entry[K])
		}
		e = &entry[K]{key: key}
		e.exclusive.entry, e.exclusive.ordered, e.shared.entry = e, true, e
		n.entries[key] = e
	}
	return e
}

// SetIdle says whether the waiter has looked, found nothing, and now only waits. A new ticket is not idle. SetIdle does not
// block.
func (t *Ticket[K]) SetIdle(idle bool) {
	t.notifier.mu.Lock()
	defer t.notifier.mu.Unlock()
	t.idle = idle
	for i, m := range t.memberships {
		m.list.refs.Put(ref[K]{ticket: t, index: i})
	}
}

// C returns the channel that closes when the ticket wakes. It never carries a value. A ticket that was closed before its wake
// does not wake.
func (t *Ticket[K]) C() <-chan struct{} { return t.c }

// Accept returns why the ticket woke. After Accept, Close does not forward the wake. Call Accept only after C has closed.
func (t *Ticket[K]) Accept() Wake[K] {
	t.accepted = true
	return t.wake
}

// Close releases the ticket, woken or not. A wake that was not accepted goes to the next exclusive
// ticket. Further calls do nothing. It does not block.
func (t *Ticket[K]) Close() {
	select {
	case <-t.c: // a woken ticket is removed already, so 10,000 waiters that resume need no lock
	default:
		t.notifier.mu.Lock()
		t.notifier.removeLocked(t)
		t.notifier.armLocked()
		t.notifier.mu.Unlock()
		// t.wake is final here, even if C closes a moment later.
	}
	if !t.accepted && len(t.wake.Keys) > 0 {
		t.notifier.Announce(time.Time{}, t.wake.Cause, t.wake.Keys...)
	}
	t.accepted = true
}

// removeLocked removes t from all its lists, and removes each key that has no ticket left. It does
// nothing if t was removed before. The caller arms the timer.
func (n *Notifier[K]) removeLocked(t *Ticket[K]) {
	for i, m := range t.memberships {
		m.list.refs.Remove(ref[K]{ticket: t, index: i})
		if e := m.list.entry; e != nil && e.empty() {
			delete(n.entries, e.key)
			n.due.Remove(e)
		}
	}
	if t.memberships != nil && len(n.all.refs) == 0 {
		n.resetLocked()
	}
	t.memberships = nil
}

// list holds tickets. The lock guards it.
type list[K comparable] struct {
	entry *entry[K] // nil: the list of all tickets
	refs  heap.Heap[ref[K]]
	// ordered: refs has the order of Ticket.before. Otherwise refs has no order.
	ordered bool
}

// ref is a ticket in a list. The heap stores the position of a ref in the membership of the ticket. So a ticket leaves a list of
// 10,000 tickets without a search.
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
