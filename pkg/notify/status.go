package notify

import (
	"slices"
	"time"
)

// Instant is when a key wakes by itself.
type Instant[K comparable] struct {
	Key K
	At  time.Time
}

// Waiting returns how many tickets wait and for how many different keys.
func (n *Notifier[K]) Waiting() (tickets, keys int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.all.members), len(n.entries)
}

// Next returns the earliest instant to come at which tickets wake; false when
// there is none.
func (n *Notifier[K]) Next() (time.Time, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.nextLocked(), len(n.due) > 0
}

// Due returns the earliest instants to come, at most limit of them, earliest
// first; nil when there are none. It copies all of them, so it is for status
// pages and not for each request.
func (n *Notifier[K]) Due(limit int) []Instant[K] {
	instants := n.instants()
	slices.SortFunc(instants, func(a, b Instant[K]) int { return a.At.Compare(b.At) })
	return instants[:min(max(0, limit), len(instants))]
}

func (n *Notifier[K]) instants() []Instant[K] {
	n.mu.Lock()
	defer n.mu.Unlock()
	var instants []Instant[K]
	for _, e := range n.due {
		instants = append(instants, Instant[K]{Key: e.key, At: e.due.at})
	}
	return instants
}

// WokenByTimer returns how many tickets have woken since New because an instant
// came. It is for metrics: announcements return their own count, an instant has
// no caller.
func (n *Notifier[K]) WokenByTimer() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.timed
}
