package notify

// Ticket is the right to be woken once. It is taken before looking.
type Ticket[K comparable] struct {
	notifier *Notifier[K]
	c        chan struct{} // closed by whoever took the ticket out to wake it
	seats    []seat[K]     // under the lock; nil: woken or given back
}

// seat is where a ticket sits in an entry.
type seat[K comparable] struct {
	entry *entry[K]
	index int // in entry.members
}

// entry is what the Notifier knows of a key that has tickets. All of it is under
// the lock.
type entry[K comparable] struct {
	key     K
	members []member[K]
	due     due
}

// member is a ticket in an entry. The two indices point at each other, so that a
// ticket leaves a key of 10,000 without a search.
type member[K comparable] struct {
	ticket *Ticket[K]
	seat   int // in ticket.seats
}

// Ticket returns a ticket that wakes at the next announcement of any of the
// keys, and at AnnounceAll. Without keys only the latter wakes it. The caller
// gives it back with Close.
func (n *Notifier[K]) Ticket(keys ...K) *Ticket[K] {
	t := &Ticket[K]{notifier: n, c: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return t
	}
	t.seats = make([]seat[K], 0, 1+len(keys))
	t.join(&n.all)
	if n.entries == nil && len(keys) > 0 {
		n.entries = make(map[K]*entry[K])
	}
	for _, key := range keys {
		e := n.entries[key]
		if e == nil {
			e = &entry[K]{key: key, due: due{place: notDue}}
			n.entries[key] = e
		}
		t.join(e)
	}
	return t
}

// C returns the channel that closes when the ticket wakes. It never carries a
// value. A ticket that was given back before does not wake.
func (t *Ticket[K]) C() <-chan struct{} { return t.c }

// Close gives the ticket back, woken or not. Further calls do nothing. It does
// not block.
func (t *Ticket[K]) Close() {
	select {
	case <-t.c:
		return // taken out by whoever woke it: 10,000 that resume need no lock
	default:
	}
	t.notifier.mu.Lock()
	defer t.notifier.mu.Unlock()
	t.notifier.leaveLocked(t)
	t.notifier.armLocked()
}

// join seats t in e. A key that was named twice is joined once: t would be the
// last one to have joined.
func (t *Ticket[K]) join(e *entry[K]) {
	if last := len(e.members) - 1; last >= 0 && e.members[last].ticket == t {
		return
	}
	t.seats = append(t.seats, seat[K]{entry: e, index: len(e.members)})
	e.members = append(e.members, member[K]{ticket: t, seat: len(t.seats) - 1})
}

// leaveLocked takes t out of all its entries, and with the last ticket of a key
// the key. It does nothing when t has left before. The caller arms the timer.
func (n *Notifier[K]) leaveLocked(t *Ticket[K]) {
	for _, s := range t.seats {
		s.entry.remove(s.index)
		if len(s.entry.members) == 0 && s.entry != &n.all {
			delete(n.entries, s.entry.key)
			n.forgetLocked(s.entry)
		}
	}
	if t.seats != nil && len(n.all.members) == 0 {
		n.emptyLocked()
	}
	t.seats = nil
}

// remove lets the last member take the place of the one that leaves.
func (e *entry[K]) remove(index int) {
	last := len(e.members) - 1
	moved := e.members[last]
	e.members[index] = moved
	moved.ticket.seats[moved.seat].index = index
	e.members[last] = member[K]{} // keeps nobody alive
	e.members = e.members[:last]
}
