package notify

import "time"

// ByTimer is the cause of a wake at a scheduled instant.
const ByTimer = "timer"

// Ticket is the right to be woken once. A waiter takes it before it looks.
type Ticket[K comparable] struct {
	notifier    *Notifier[K]
	c           chan struct{}   // closed to wake the waiter
	wake        Wake[K]         // written before c is closed
	accepted    bool            // only the waiter uses it
	deadline    time.Time       // of a ticket in line
	idle        bool            // of a ticket in line, under the lock
	number      uint64          // tickets taken later have higher numbers
	memberships []membership[K] // under the lock; nil: woken or closed
}

// Wake says why a ticket woke.
type Wake[K comparable] struct {
	Cause string
	// Keys are the keys of the Signal, or the key whose instant came. Nil: the ticket is not the only one
	// in line that woke.
	Keys []K
}

// firstKey is the index of the membership for the first key of a ticket. The list of all tickets is before it.
const firstKey = 1

// membership is the place of a ticket in a list.
type membership[K comparable] struct {
	list  *list[K]
	index int // in list.refs
}

// entry holds the tickets of a key. The lock guards all of it.
type entry[K comparable] struct {
	key K
	// line are the tickets of Line, of which a Signal wakes the first. others are the tickets of Ticket.
	line, others list[K]
	due          due
	// extended are keys passed to Extend. Tickets taken later are not in line for them. It has at most as
	// many keys as the Notifier.
	extended map[K]bool
	// newest is the number of the last ticket that named the key.
	newest uint64
}

// empty reports whether no ticket is left.
func (e *entry[K]) empty() bool { return len(e.line.refs)+len(e.others.refs) == 0 }

// Ticket returns a ticket that wakes at the next Announce or Signal of any of the keys, at the instant
// that is scheduled for one, and at AnnounceAll. Without keys only AnnounceAll wakes it. The caller
// must Close it. Ticket does not block.
func (n *Notifier[K]) Ticket(keys ...K) *Ticket[K] {
	return n.take(keys, &Ticket[K]{}, func(e *entry[K]) *list[K] { return &e.others })
}

// Line is Ticket for a waiter of which one is enough for a Signal. A Signal wakes the ticket with the
// earliest deadline, and of equal deadlines the oldest. So does an instant that comes. A ticket that is not
// idle (SetIdle) is behind all others.
//
// The waiter that wakes has a duty. If it cannot look, or if its look does not show that nothing is
// left, it passes the wake on: it calls Signal again. Until it calls Accept, Close does that.
func (n *Notifier[K]) Line(deadline time.Time, keys ...K) *Ticket[K] {
	return n.take(keys, &Ticket[K]{deadline: deadline}, func(e *entry[K]) *list[K] { return &e.line })
}

// take completes the ticket and adds it to one list of each key.
func (n *Notifier[K]) take(keys []K, t *Ticket[K], of func(*entry[K]) *list[K]) *Ticket[K] {
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
		if e := n.entryLocked(key); e.newest != t.number { // else the caller named the key before
			e.newest = t.number
			of(e).add(t)
		}
	}
	return t
}

// entryLocked returns the entry of the key, and makes it if needed. The caller adds a ticket to it.
func (n *Notifier[K]) entryLocked(key K) *entry[K] {
	e := n.entries[key]
	if e == nil {
		if n.entries == nil {
			n.entries = make(map[K]*entry[K])
		}
		e = &entry[K]{key: key, due: due{index: notDue}}
		e.line.entry, e.line.ordered, e.others.entry = e, true, e
		n.entries[key] = e
	}
	return e
}

// SetIdle says whether the waiter does nothing but wait: it has looked and found nothing. A Signal wakes
// idle tickets first. A new ticket is not idle. It does not block.
func (t *Ticket[K]) SetIdle(idle bool) {
	t.notifier.mu.Lock()
	defer t.notifier.mu.Unlock()
	t.idle = idle
	for _, m := range t.memberships {
		m.list.fix(m.index)
	}
}

// C returns the channel that closes when the ticket wakes. It never carries a
// value. A ticket that was closed first does not wake.
func (t *Ticket[K]) C() <-chan struct{} { return t.c }

// Accept returns why the ticket woke. After it, Close does not pass the wake on. Call it only after C
// has closed.
func (t *Ticket[K]) Accept() Wake[K] {
	t.accepted = true
	return t.wake
}

// Close releases the ticket, woken or not. A wake that was not accepted goes to the next ticket in
// line. Further calls do nothing. It does not block.
func (t *Ticket[K]) Close() {
	select {
	case <-t.c: // it was removed before it woke: 10,000 waiters that resume need no lock
	default:
		t.notifier.mu.Lock()
		t.notifier.removeLocked(t)
		t.notifier.armLocked()
		t.notifier.mu.Unlock()
		// Its wake is decided now, also if C closes only in a moment.
	}
	if !t.accepted && len(t.wake.Keys) > 0 {
		t.notifier.Signal(time.Time{}, t.wake.Cause, t.wake.Keys...)
	}
	t.accepted = true
}

// removeLocked removes t from all its lists, and removes each key that has no ticket left. It does
// nothing if t was removed before. The caller arms the timer.
func (n *Notifier[K]) removeLocked(t *Ticket[K]) {
	for _, m := range t.memberships {
		m.list.remove(m.index)
		if e := m.list.entry; e != nil && e.empty() {
			delete(n.entries, e.key)
			n.unscheduleLocked(e)
		}
	}
	if t.memberships != nil && len(n.all.refs) == 0 {
		n.resetLocked()
	}
	t.memberships = nil
}
