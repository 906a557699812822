package notify

import (
	"slices"
	"sync"
	"time"
)

// Notifier wakes the tickets of a key. It is safe for concurrent use. None of
// its methods waits for a waiter.
type Notifier[K comparable] struct {
	mu      sync.Mutex
	closed  bool
	entries map[K]*entry[K] // the keys that have tickets; made when needed
	all     entry[K]        // every ticket, those without keys included
	due     dueHeap[K]      // the entries with an instant to come
	timer   *time.Timer     // rings at armed; made when needed
	armed   time.Time       // zero: the timer is not set
	timed   uint64          // tickets woken by the timer
	rings   sync.WaitGroup  // rings of the timer that are set or under way
}

// New returns a Notifier. Close releases its timer.
func New[K comparable]() *Notifier[K] { return &Notifier[K]{} }

// Announce says that there is something for key at the instant at.
//
// Up to now it wakes all tickets of key and returns how many those were. Later
// than now it returns 0, and the tickets that key has at that instant wake then;
// of several instants only the earliest is kept. Either way it does nothing when
// key has no tickets.
//
// Call it after what a look would find is published. It does not block.
func (n *Notifier[K]) Announce(key K, at time.Time) int {
	woken := n.announced(key, at)
	tell(woken)
	return len(woken)
}

func (n *Notifier[K]) announced(key K, at time.Time) []*Ticket[K] {
	n.mu.Lock()
	defer n.mu.Unlock()
	e := n.entries[key]
	if e == nil {
		return nil
	}
	now := time.Now()
	if wait := at.Sub(now); wait > 0 {
		// An instant from elsewhere has no monotonic reading. Adding to now gives
		// it one, so that all instants compare and no set clock moves them.
		n.promiseLocked(e, now.Add(wait))
		return nil
	}
	woken := n.wakeLocked(nil, e)
	n.armLocked()
	return woken
}

// AnnounceAll wakes every ticket now, whatever its keys, and returns how many
// those were. It is for the case that announcements may have been missed. It
// does not block.
func (n *Notifier[K]) AnnounceAll() int {
	n.mu.Lock()
	woken := n.wakeAllLocked()
	n.mu.Unlock()
	tell(woken)
	return len(woken)
}

// Close wakes every ticket, forgets every instant and stops the timer. It waits
// for a ring of the timer that is under way, which blocks on nobody. Further
// calls do nothing.
//
// Announcements are ignored from then on, and a ticket taken afterwards never
// wakes: waiters need another signal that ends their waiting.
func (n *Notifier[K]) Close() {
	n.mu.Lock()
	n.closed = true
	woken := n.wakeAllLocked()
	n.mu.Unlock()
	tell(woken)
	n.rings.Wait()
}

// wakeLocked takes the tickets of e out and appends them to woken. The caller
// arms the timer and, without the lock, tells them.
func (n *Notifier[K]) wakeLocked(woken []*Ticket[K], e *entry[K]) []*Ticket[K] {
	first := len(woken)
	woken = slices.Grow(woken, len(e.members))
	for _, m := range e.members {
		woken = append(woken, m.ticket)
	}
	for _, ticket := range woken[first:] {
		n.leaveLocked(ticket)
	}
	return woken
}

// wakeAllLocked takes all tickets out. The caller tells them without the lock.
func (n *Notifier[K]) wakeAllLocked() []*Ticket[K] {
	woken := make([]*Ticket[K], 0, len(n.all.members))
	for _, m := range n.all.members {
		m.ticket.seats = nil
		woken = append(woken, m.ticket)
	}
	n.emptyLocked()
	n.armLocked()
	return woken
}

// emptyLocked forgets everything about tickets, and gives back the room that
// many of them took: a map or slice does not shrink by itself.
func (n *Notifier[K]) emptyLocked() {
	n.entries, n.all.members, n.due = nil, nil, nil
}

// tell closes the channels of tickets that were taken out. It is called without
// the lock, so that 10,000 waiters that resume do not meet on it. Whoever took a
// ticket out is the only one to close it.
func tell[K comparable](woken []*Ticket[K]) {
	for _, ticket := range woken {
		close(ticket.c)
	}
}
