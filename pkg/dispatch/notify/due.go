package notify

import (
	"slices"
	"time"
)

// due is the scheduled instant of an entry and its place in the heap.
type due struct {
	at    time.Time
	place int // 0: no instant is scheduled
}

// scheduleLocked makes e wake at the instant at, unless an earlier wake is
// scheduled. Then the later instant is dropped and nothing is lost: at the earlier
// instant a waiter looks and announces again.
func (n *Notifier[K]) scheduleLocked(e *entry[K], at time.Time) {
	if e.due.place == 0 || at.Before(e.due.at) {
		e.due.at = at
		n.due.Put(e)
	}
	n.armLocked()
}

// armLocked sets the timer to the earliest instant, or stops the timer if no instant
// is left. It does nothing if the timer is set to that instant or fires for it.
//
// Stop and Reset report whether they cancelled a firing, so firings counts exactly
// the calls of fire that happen. A call of fire takes the lock before it counts
// down, so it never counts down before armLocked counts up.
func (n *Notifier[K]) armLocked() {
	next := n.nextLocked()
	if next.Equal(n.armed) {
		return
	}
	n.armed = next
	switch {
	case next.IsZero():
		if n.timer.Stop() {
			n.firings.Done()
		}
	case n.timer == nil:
		n.firings.Add(1)
		n.timer = time.AfterFunc(time.Until(next), n.fire)
	case !n.timer.Reset(time.Until(next)):
		n.firings.Add(1)
	}
}

// nextLocked returns the earliest instant, or zero.
func (n *Notifier[K]) nextLocked() time.Time {
	if len(n.due) == 0 {
		return time.Time{}
	}
	return n.due[0].due.at
}

// fire is the timer function. The timer calls it in a goroutine of its own. Close waits for it.
func (n *Notifier[K]) fire() {
	defer n.firings.Done()
	wake(n.takeDue())
}

// takeDue removes and returns the tickets to wake of all keys that are due.
func (n *Notifier[K]) takeDue() []*Ticket[K] {
	n.mu.Lock()
	defer n.mu.Unlock()
	var woken []*Ticket[K]
	for now := time.Now(); len(n.due) > 0 && !n.due[0].due.at.After(now); {
		e := n.due[0]
		n.due.Remove(e)
		woken = n.takeLocked(woken, &e.shared, Wake[K]{Cause: ByTimer})
		if len(e.exclusive.refs) > 0 {
			woken = n.takeTicketLocked(woken, e.exclusive.refs[0].ticket, Wake[K]{Cause: ByTimer, Keys: []K{e.key}})
		}
	}
	n.timed += uint64(len(woken))
	n.armLocked()
	return woken
}

// Before implements heap.Element: the earliest instant is first.
func (e *entry[K]) Before(other *entry[K]) bool { return e.due.at.Before(other.due.at) }

// Place implements heap.Element.
func (e *entry[K]) Place() *int { return &e.due.place }

// Instant is a scheduled wake of a key.
type Instant[K comparable] struct {
	Key K
	At  time.Time
}

// Due returns the limit earliest scheduled instants, earliest first, or nil if
// nothing is scheduled. It copies and sorts all scheduled instants: use it for
// status pages and not per request.
func (n *Notifier[K]) Due(limit int) []Instant[K] {
	n.mu.Lock()
	var instants []Instant[K]
	for _, e := range n.due {
		instants = append(instants, Instant[K]{Key: e.key, At: e.due.at})
	}
	n.mu.Unlock()
	slices.SortFunc(instants, func(a, b Instant[K]) int { return a.At.Compare(b.At) })
	return instants[:min(max(0, limit), len(instants))]
}

// WokenByTimer returns the number of tickets that the timer has woken since New. It
// is for metrics: Announce returns its own count, but the timer has no caller.
func (n *Notifier[K]) WokenByTimer() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.timed
}
