package scanfloor

import "time"

const (
	// keepResets is how long a reset is kept. A floor that no scan has moved for so long counts as
	// none.
	keepResets = 2 * fullScanInterval
	maxResets  = 256
)

// floorReset is an instant down to which floors must go. The event was noticed at a local instant.
type floorReset struct{ noticed, instant time.Time }

// floorResets are the resets that may still count, in the order in which they were noticed. A later
// reset with a lower instant replaces the resets before it, so instants ascend as well: the first
// reset is the lowest.
type floorResets []floorReset

// add adds a reset. Beyond maxResets it merges the two oldest into one with the lower instant and
// the later time.
func (l *floorResets) add(noticed, instant time.Time) {
	l.dropBefore(noticed.Add(-keepResets))
	kept := *l
	for len(kept) > 0 && !kept[len(kept)-1].instant.Before(instant) {
		kept = kept[:len(kept)-1]
	}
	if len(kept) >= maxResets {
		kept[1].instant = kept[0].instant
		kept = kept[1:]
	}
	kept = append(kept, floorReset{noticed, instant})
	*l = kept
}

// dropBefore removes the resets that were noticed before a local instant.
func (l *floorResets) dropBefore(instant time.Time) {
	for len(*l) > 0 && (*l)[0].noticed.Before(instant) {
		*l = (*l)[1:]
	}
}

// lowest returns the lower of an instant and the lowest reset.
func (l floorResets) lowest(instant time.Time) time.Time {
	if len(l) == 0 {
		return instant
	}
	return earlier(instant, l[0].instant)
}
