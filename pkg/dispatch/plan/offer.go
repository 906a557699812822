package plan

import (
	"cmp"
	"slices"
	"time"
)

// obstacle is the reason why a candidate is not poppable. The obstacle that is
// nearest to poppable has the lowest value.
type obstacle int

const (
	poppable obstacle = iota
	leased
	windowOpen
	delayed
	paused
	absent // no candidate at all
)

// outcomes are the outcomes of an intent that gets nothing, by its nearest obstacle.
var outcomes = [...]Outcome{
	poppable:   SkipPartitionUnavailable,
	leased:     SkipLeaseTaken,
	windowOpen: SkipWindowBuffer,
	delayed:    SkipDelayed,
	paused:     SkipPaused,
	absent:     SkipNoPartitions,
}

// offer is a candidate and its state within one call.
type offer struct {
	Candidate
	obstacle obstacle
	// taken: an intent that named the partition got it.
	taken bool
}

// obstacleOf returns the farthest obstacle of a candidate. If no flag explains a
// ReadyAt after now, the partition counts as delayed.
func obstacleOf(now time.Time, c Candidate) obstacle {
	switch {
	case c.Paused:
		return paused
	case c.Delayed:
		return delayed
	case c.WindowOpen:
		return windowOpen
	case c.Leased:
		return leased
	case c.ReadyAt.After(now):
		return delayed
	default:
		return poppable
	}
}

// offersOf returns the candidates sorted by group and partition, without repetitions,
// and the number of rows that repeat a candidate.
func offersOf(now time.Time, candidates []Candidate) (offers []offer, repeated int) {
	sorted := slices.Clone(candidates)
	slices.SortFunc(sorted, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Partition, b.Partition))
	})
	offers = make([]offer, 0, len(sorted))
	for i := 0; i < len(sorted); {
		c := sorted[i]
		for i++; i < len(sorted) && sorted[i].Group == c.Group && sorted[i].Partition == c.Partition; i++ {
			c = merged(c, sorted[i])
			repeated++
		}
		offers = append(offers, offer{Candidate: c, obstacle: obstacleOf(now, c)})
	}
	return offers, repeated
}

// merged joins two rows of one partition. If they disagree, the partition is poppable
// only if both rows say so. The order of the rows does not matter.
func merged(a, b Candidate) Candidate {
	if b.ReadyAt.After(a.ReadyAt) {
		a.ReadyAt = b.ReadyAt
	}
	a.Depth = max(a.Depth, b.Depth)
	a.Leased = a.Leased || b.Leased
	a.WindowOpen = a.WindowOpen || b.WindowOpen
	a.Delayed = a.Delayed || b.Delayed
	a.Paused = a.Paused || b.Paused
	return a
}

// skipReason returns the outcome of an intent that could take any of these offers and gets none.
func skipReason(offers []offer) Outcome {
	nearest := absent
	for _, o := range offers {
		nearest = min(nearest, o.obstacle)
	}
	return outcomes[nearest]
}

// freeOffers returns the offers of one group that no intent has yet, in the order in
// which they are given.
func freeOffers(rotate uint64, offers []offer) []offer {
	var sorted []offer
	for _, o := range offers {
		if o.obstacle == poppable && !o.taken {
			sorted = append(sorted, o)
		}
	}
	slices.SortFunc(sorted, func(a, b offer) int {
		return cmp.Or(cmp.Compare(b.Depth, a.Depth), cmp.Compare(a.Partition, b.Partition))
	})
	for rest := sorted; len(rest) > 0; {
		equal := prefix(rest, func(o offer) bool { return o.Depth == rest[0].Depth })
		rest = rest[len(equal):]
		k := int(rotate % uint64(len(equal)))
		copy(equal, slices.Concat(equal[k:], equal[:k]))
	}
	return sorted
}

// prefix returns the leading elements for which match is true.
func prefix[T any](s []T, match func(T) bool) []T {
	for i, v := range s {
		if !match(v) {
			return s[:i]
		}
	}
	return s
}
