package notify

// ByTimer is the cause of a wake at a scheduled instant.
const ByTimer = "timer"

// Ticket is the right to be woken once. A waiter takes it before it looks.
type Ticket[K comparable] struct {
	notifier    *Notifier[K]
	c           chan struct{}   // closed to wake the waiter
	cause       string          // written before c is closed
	memberships []membership[K] // under the lock; nil: woken or closed
}

// membership is the place of a ticket in an entry.
type membership[K comparable] struct {
	entry *entry[K]
	index int // in entry.tickets
}

// entry holds the tickets of a key. The lock guards all of it.
type entry[K comparable] struct {
	key     K
	tickets []ticketRef[K]
	due     due
}

// ticketRef is a ticket in an entry. Its index and the index of the membership point
// at each other, so a ticket leaves a key of 10,000 tickets without a search.
type ticketRef[K comparable] struct {
	ticket *Ticket[K]
	index  int // in ticket.memberships
}

// Ticket returns a ticket that wakes at the next announcement of any of the keys,
// and at AnnounceAll. Without keys only AnnounceAll wakes it. The caller must Close
// it. Ticket does not block.
func (n *Notifier[K]) Ticket(keys ...K) *Ticket[K] {
	t := &Ticket[K]{notifier: n, c: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return t
	}
	t.memberships = make([]membership[K], 0, 1+len(keys))
	t.join(&n.all)
	if n.entries == nil && len(keys) > 0 {
		n.entries = make(map[K]*entry[K])
	}
	for _, key := range keys {
		e := n.entries[key]
		if e == nil {
			e = &entry[K]{key: key, due: due{index: notDue}}
			n.entries[key] = e
		}
		t.join(e)
	}
	return t
}

// C returns the channel that closes when the ticket wakes. It never carries a
// value. A ticket that was closed first does not wake.
func (t *Ticket[K]) C() <-chan struct{} { return t.c }

// Cause returns the cause of the announcement that woke the ticket. Call it only
// after C has closed.
func (t *Ticket[K]) Cause() string { return t.cause }

// Close releases the ticket, woken or not. Further calls do nothing. It does not block.
func (t *Ticket[K]) Close() {
	select {
	case <-t.c:
		return // it was removed before it woke: 10,000 waiters that resume need no lock
	default:
	}
	t.notifier.mu.Lock()
	defer t.notifier.mu.Unlock()
	t.notifier.removeLocked(t)
	t.notifier.armLocked()
}

// join adds t to e. If the caller named a key twice, t is already the last ticket
// of e, and join does nothing.
func (t *Ticket[K]) join(e *entry[K]) {
	if last := len(e.tickets) - 1; last >= 0 && e.tickets[last].ticket == t {
		return
	}
	t.memberships = append(t.memberships, membership[K]{entry: e, index: len(e.tickets)})
	e.tickets = append(e.tickets, ticketRef[K]{ticket: t, index: len(t.memberships) - 1})
}

// removeLocked removes t from all its entries, and removes each key that has no
// ticket left. It does nothing if t was removed before. The caller arms the timer.
func (n *Notifier[K]) removeLocked(t *Ticket[K]) {
	for _, m := range t.memberships {
		m.entry.remove(m.index)
		if len(m.entry.tickets) == 0 && m.entry != &n.all {
			delete(n.entries, m.entry.key)
			n.unscheduleLocked(m.entry)
		}
	}
	if t.memberships != nil && len(n.all.tickets) == 0 {
		n.resetLocked()
	}
	t.memberships = nil
}

// remove moves the last ticket to the index that becomes free.
func (e *entry[K]) remove(index int) {
	last := len(e.tickets) - 1
	moved := e.tickets[last]
	e.tickets[index] = moved
	moved.ticket.memberships[moved.index].index = index
	e.tickets[last] = ticketRef[K]{} // lets the collector free the ticket
	e.tickets = e.tickets[:last]
}
