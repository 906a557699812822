package store

import (
	"sort"
	"time"
)

const (
	// keepLowerings is how long a lowering is kept: a floor that no look has moved
	// for so long counts as none.
	keepLowerings = 2 * floorless
	maxLowerings  = 256
)

// lowering is an instant down to which floors have to go, noticed at a local instant.
type lowering struct{ noticed, to time.Time }

// lowerings are those that may still count, in the order in which they were noticed.
// A later one that goes deeper stands for those before it, so they go up in to as well:
// the first one after an instant is the lowest since.
type lowerings []lowering

// add takes note of one. Beyond maxLowerings the oldest two become one, as if the
// lower had been noticed with the later.
func (l *lowerings) add(noticed, to time.Time) {
	l.forget(noticed.Add(-keepLowerings))
	kept := *l
	for len(kept) > 0 && !kept[len(kept)-1].to.Before(to) {
		kept = kept[:len(kept)-1]
	}
	if len(kept) >= maxLowerings {
		kept[1].to = kept[0].to
		kept = kept[1:]
	}
	kept = append(kept, lowering{noticed, to})
	*l = kept
}

// forget drops those that were noticed before an instant.
func (l *lowerings) forget(before time.Time) { *l = (*l)[l.from(before):] }

// since returns the lowest of those that were noticed from an instant on.
func (l lowerings) since(at time.Time) (to time.Time, ok bool) {
	if first := l.from(at); first < len(l) {
		return l[first].to, true
	}
	return time.Time{}, false
}

// from returns the place of the first one that was noticed at an instant or later.
func (l lowerings) from(at time.Time) int {
	return sort.Search(len(l), func(i int) bool { return !l[i].noticed.Before(at) })
}
