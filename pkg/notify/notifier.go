package notify

import (
	"slices"
	"sync"
	"time"
)

// Notifier wakes the tickets of a key. It is safe for concurrent use. None of its
// methods blocks on a waiter.
type Notifier[K comparable] struct {
	mu      sync.Mutex
	closed  bool
	entries map[K]*entry[K] // the keys that have tickets; made when needed
	all     entry[K]        // every ticket, including those without keys
	due     dueHeap[K]      // the entries with a scheduled instant
	timer   *time.Timer     // fires at armed; made when needed
	armed   time.Time       // zero: the timer is not set
	timed   uint64          // tickets woken by the timer
	firings sync.WaitGroup  // runs of the timer function that are set or under way
}

// New returns a Notifier. Close releases its timer.
func New[K comparable]() *Notifier[K] { return &Notifier[K]{} }

// Announce says that a look for key finds something from the instant at on.
//
// If at has been reached, it wakes all tickets of key, with this cause, and returns
// their number. Otherwise it returns 0 and schedules a wake by the timer at that
// instant, for all tickets that key has then. Of several instants only the earliest
// is kept. If key has no tickets, it does nothing.
//
// Publish before you call it. It does not block.
func (n *Notifier[K]) Announce(key K, at time.Time, cause string) int {
	woken := n.announce(key, at, cause)
	wake(woken)
	return len(woken)
}

// announce removes and returns the tickets to wake now.
func (n *Notifier[K]) announce(key K, at time.Time, cause string) []*Ticket[K] {
	n.mu.Lock()
	defer n.mu.Unlock()
	e := n.entries[key]
	if e == nil {
		return nil
	}
	now := time.Now()
	if wait := at.Sub(now); wait > 0 {
		// An instant from a database has no monotonic reading. Adding to now gives it
		// one, so that all instants compare and setting the wall clock moves none.
		n.scheduleLocked(e, now.Add(wait))
		return nil
	}
	woken := n.takeLocked(nil, e, cause)
	n.armLocked()
	return woken
}

// AnnounceAll wakes every ticket now, whatever its keys, and returns their number.
// Use it when announcements may have been missed. It does not block.
func (n *Notifier[K]) AnnounceAll(cause string) int {
	n.mu.Lock()
	woken := n.takeAllLocked(cause)
	n.mu.Unlock()
	wake(woken)
	return len(woken)
}

// Close wakes every ticket, drops every scheduled instant and stops the timer. It waits for a timer
// function that is running, which blocks on nothing but the lock. Further calls do nothing.
//
// After Close, announcements do nothing and a new ticket never wakes. Waiters need another signal
// that ends their waiting.
func (n *Notifier[K]) Close() {
	n.mu.Lock()
	n.closed = true
	woken := n.takeAllLocked("")
	n.mu.Unlock()
	wake(woken)
	n.firings.Wait()
}

// takeLocked removes the tickets of e and appends them to woken. The caller arms
// the timer, releases the lock and wakes the tickets.
func (n *Notifier[K]) takeLocked(woken []*Ticket[K], e *entry[K], cause string) []*Ticket[K] {
	first := len(woken)
	woken = slices.Grow(woken, len(e.tickets))
	for _, ref := range e.tickets {
		ref.ticket.cause = cause
		woken = append(woken, ref.ticket)
	}
	for _, ticket := range woken[first:] {
		n.removeLocked(ticket)
	}
	return woken
}

// takeAllLocked removes and returns all tickets. The caller releases the lock and wakes them.
func (n *Notifier[K]) takeAllLocked(cause string) []*Ticket[K] {
	woken := make([]*Ticket[K], 0, len(n.all.tickets))
	for _, ref := range n.all.tickets {
		ref.ticket.memberships, ref.ticket.cause = nil, cause
		woken = append(woken, ref.ticket)
	}
	n.resetLocked()
	n.armLocked()
	return woken
}

// resetLocked drops all tickets and frees their memory: a map or slice does not shrink by itself.
func (n *Notifier[K]) resetLocked() {
	n.entries, n.all.tickets, n.due = nil, nil, nil
}

// wake closes the channels of removed tickets. The caller does not hold the lock,
// so that 10,000 waiters that resume do not contend for it. Each ticket is removed
// once, so its channel is closed once.
func wake[K comparable](tickets []*Ticket[K]) {
	for _, ticket := range tickets {
		close(ticket.c)
	}
}
