package notify

import (
	"slices"
	"time"
)

// Instant is a scheduled wake of a key.
type Instant[K comparable] struct {
	Key K
	At  time.Time
}

// Due returns the limit earliest scheduled instants, earliest first, or nil if
// nothing is scheduled. It copies and sorts all scheduled instants: use it for
// status pages and not per request.
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

// WokenByTimer returns the number of tickets that the timer has woken since New. It
// is for metrics: Announce returns its own count, but the timer has no caller.
func (n *Notifier[K]) WokenByTimer() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.timed
}
