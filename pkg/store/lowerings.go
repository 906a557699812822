package store

import "time"

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
// the first one is the lowest.
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
func (l *lowerings) forget(before time.Time) {
	for len(*l) > 0 && (*l)[0].noticed.Before(before) {
		*l = (*l)[1:]
	}
}

// below returns the lower of an instant and the lowest of them.
func (l lowerings) below(at time.Time) time.Time {
	if len(l) == 0 {
		return at
	}
	return earlier(at, l[0].to)
}
