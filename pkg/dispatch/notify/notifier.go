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
	all     list[K]         // every ticket, including those without keys
	tickets uint64          // tickets taken since New
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
// instant, for the tickets that key has then: the first in line, and all that are not in line. Of
// several instants only the earliest is kept. If key has no tickets, it does nothing.
//
// Publish before you call it. It does not block.
func (n *Notifier[K]) Announce(key K, at time.Time, cause string) int {
	return n.announce(at, cause, false, key)
}

// Signal is Announce for something that only one waiter can take. Of the tickets in line it wakes
// only one: the first of the first key that has any. The other tickets of the keys all wake.
func (n *Notifier[K]) Signal(at time.Time, cause string, keys ...K) int {
	return n.announce(at, cause, true, keys...)
}

// SignalEach wakes the tickets of the keys that are not in line. Tickets in line with the same first key are
// of one kind, and SignalEach wakes the first ticket of each kind.
//
// It examines every ticket of the keys. It returns the number of woken tickets.
func (n *Notifier[K]) SignalEach(cause string, keys ...K) int {
	woken := n.signalEachLocking(cause, keys)
	wake(woken)
	return len(woken)
}

// signalEachLocking removes and returns the tickets to wake now.
func (n *Notifier[K]) signalEachLocking(cause string, keys []K) []*Ticket[K] {
	n.mu.Lock()
	defer n.mu.Unlock()
	var woken []*Ticket[K]
	firsts := map[*entry[K]]*Ticket[K]{} // by the entry of the first key
	for _, key := range keys {
		e := n.entries[key]
		if e == nil {
			continue
		}
		woken = n.takeLocked(woken, &e.others, Wake[K]{Cause: cause})
		for _, r := range e.line.refs {
			kind := r.ticket.memberships[firstKey].list.entry
			if first := firsts[kind]; first == nil || r.ticket.before(first) {
				firsts[kind] = r.ticket
			}
		}
	}
	for kind, ticket := range firsts {
		woken = n.takeTicketLocked(woken, ticket, Wake[K]{Cause: cause, Keys: []K{kind.key}})
	}
	n.armLocked()
	return woken
}

// Extend puts the tickets in line for key in line for more keys as well. It does not block. The first time
// for a key it examines all tickets in line for both keys.
//
// A later ticket is not extended. Its waiter looks after it takes the ticket, and so finds the new key
// itself.
func (n *Notifier[K]) Extend(key K, more ...K) {
	n.mu.Lock()
	defer n.mu.Unlock()
	e := n.entries[key]
	if e == nil || len(e.line.refs) == 0 {
		return
	}
	for _, k := range more {
		if k == key || e.extended[k] {
			continue
		}
		n.extendLocked(e, k)
		if len(e.extended) >= len(n.entries) {
			clear(e.extended) // some have no tickets any more
		}
		if e.extended == nil {
			e.extended = map[K]bool{}
		}
		e.extended[k] = true
	}
}

func (n *Notifier[K]) extendLocked(e *entry[K], k K) {
	other := n.entryLocked(k)
	there := make(map[*Ticket[K]]bool, len(other.line.refs))
	for _, r := range other.line.refs {
		there[r.ticket] = true
	}
	for _, r := range e.line.refs {
		if !there[r.ticket] {
			other.line.add(r.ticket)
		}
	}
}

// announce is Signal, or Announce for each key.
func (n *Notifier[K]) announce(at time.Time, cause string, one bool, keys ...K) int {
	woken := n.announceLocking(at, cause, one, keys)
	wake(woken)
	return len(woken)
}

// announceLocking removes and returns the tickets to wake now.
func (n *Notifier[K]) announceLocking(at time.Time, cause string, one bool, keys []K) []*Ticket[K] {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	wait := at.Sub(now)
	var woken []*Ticket[K]
	served := false
	for _, key := range keys {
		e := n.entries[key]
		switch {
		case e == nil:
		case wait > 0:
			// An instant from a database has no monotonic reading. Adding to now gives it
			// one, so that all instants compare and setting the wall clock moves none.
			n.scheduleLocked(e, now.Add(wait))
		case !one:
			woken = n.takeLocked(woken, &e.line, Wake[K]{Cause: cause})
			woken = n.takeLocked(woken, &e.others, Wake[K]{Cause: cause})
		default:
			woken = n.takeLocked(woken, &e.others, Wake[K]{Cause: cause})
			if !served && len(e.line.refs) > 0 {
				served = true
				woken = n.takeFirstLocked(woken, e, Wake[K]{Cause: cause, Keys: slices.Clone(keys)})
			}
		}
	}
	n.armLocked()
	return woken
}

// InLine returns how many tickets are in line for key.
func (n *Notifier[K]) InLine(key K) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if e := n.entries[key]; e != nil {
		return len(e.line.refs)
	}
	return 0
}

// First returns the ticket in line that a Signal of key would wake, or nil if none is idle.
func (n *Notifier[K]) First(key K) *Ticket[K] {
	n.mu.Lock()
	defer n.mu.Unlock()
	if e := n.entries[key]; e != nil && len(e.line.refs) > 0 && e.line.refs[0].ticket.idle {
		return e.line.refs[0].ticket
	}
	return nil
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

// takeLocked removes the tickets of l and appends them to woken. The caller arms
// the timer, releases the lock and wakes the tickets.
func (n *Notifier[K]) takeLocked(woken []*Ticket[K], l *list[K], why Wake[K]) []*Ticket[K] {
	first := len(woken)
	woken = slices.Grow(woken, len(l.refs))
	for _, r := range l.refs {
		r.ticket.wake = why
		woken = append(woken, r.ticket)
	}
	for _, ticket := range woken[first:] {
		n.removeLocked(ticket)
	}
	return woken
}

// takeFirstLocked is takeLocked for the first ticket in line.
func (n *Notifier[K]) takeFirstLocked(woken []*Ticket[K], e *entry[K], why Wake[K]) []*Ticket[K] {
	return n.takeTicketLocked(woken, e.line.refs[0].ticket, why)
}

// takeTicketLocked is takeLocked for one ticket.
func (n *Notifier[K]) takeTicketLocked(woken []*Ticket[K], ticket *Ticket[K], why Wake[K]) []*Ticket[K] {
	ticket.wake = why
	n.removeLocked(ticket)
	return append(woken, ticket)
}

// takeAllLocked removes and returns all tickets. The caller releases the lock and wakes them.
func (n *Notifier[K]) takeAllLocked(cause string) []*Ticket[K] {
	woken := make([]*Ticket[K], 0, len(n.all.refs))
	for _, r := range n.all.refs {
		r.ticket.memberships, r.ticket.wake = nil, Wake[K]{Cause: cause}
		woken = append(woken, r.ticket)
	}
	n.resetLocked()
	n.armLocked()
	return woken
}

// resetLocked drops all tickets and frees their memory: a map or slice does not shrink by itself.
func (n *Notifier[K]) resetLocked() {
	n.entries, n.all.refs, n.due = nil, nil, nil
}

// wake closes the channels of removed tickets. The caller does not hold the lock,
// so that 10,000 waiters that resume do not contend for it. Each ticket is removed
// once, so its channel is closed once.
func wake[K comparable](tickets []*Ticket[K]) {
	for _, ticket := range tickets {
		close(ticket.c)
	}
}
