package plan

import (
	"cmp"
	"slices"
	"time"
)

// obstacle is what keeps a candidate from being poppable, the one nearest to
// being poppable first.
type obstacle int

const (
	poppable obstacle = iota
	leased
	windowOpen
	delayed
	paused
	absent // no candidate at all
)

// outcome is what an intent is told that gets nothing for this reason.
func (o obstacle) outcome() Outcome {
	switch o {
	case poppable:
		return SkipPartitionUnavailable
	case leased:
		return SkipLeaseTaken
	case windowOpen:
		return SkipWindowBuffer
	case delayed:
		return SkipDelayed
	case paused:
		return SkipPaused
	default:
		return SkipNoPartitions
	}
}

// offer is a candidate as one call sees it.
type offer struct {
	Candidate
	obstacle obstacle
	// taken: an intent that named the partition has it.
	taken bool
}

// obstacleOf returns the last thing in the way of a candidate. ReadyAt explains
// itself by the flags; without any the partition is simply due later.
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

// offersOf returns the candidates sorted by group and partition, each once, and
// how many rows repeated one that was there already.
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

// merged joins two rows of one partition. They should agree; where they do not,
// the partition is poppable only when both rows say so, whichever came first.
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

// outlookOf returns what an intent is told that could take any of these offers
// and gets none.
func outlookOf(now time.Time, offers []offer) (outcome Outcome, next time.Time) {
	nearest := absent
	for _, o := range offers {
		nearest = min(nearest, o.obstacle)
		// Time does not end a pause.
		if o.obstacle != paused && o.ReadyAt.After(now) && (next.IsZero() || o.ReadyAt.Before(next)) {
			next = o.ReadyAt
		}
	}
	return nearest.outcome(), next
}

// free is a partition that is still to be had.
type free struct{ partition, depth int64 }

// freeOf returns the free partitions of one group in the order in which they
// are given away.
func freeOf(rotate uint64, offers []offer) []free {
	var sorted []free
	for _, o := range offers {
		if o.obstacle == poppable && !o.taken {
			sorted = append(sorted, free{o.Partition, o.Depth})
		}
	}
	slices.SortFunc(sorted, func(a, b free) int {
		return cmp.Or(cmp.Compare(b.depth, a.depth), cmp.Compare(a.partition, b.partition))
	})
	for rest := sorted; len(rest) > 0; {
		equal := prefix(rest, func(f free) bool { return f.depth == rest[0].depth })
		rest = rest[len(equal):]
		// Three reversals move the first k to the end in place.
		k := int(rotate % uint64(len(equal)))
		slices.Reverse(equal[:k])
		slices.Reverse(equal[k:])
		slices.Reverse(equal)
	}
	return sorted
}

// prefix returns the leading elements that match.
func prefix[T any](s []T, match func(T) bool) []T {
	for i, v := range s {
		if !match(v) {
			return s[:i]
		}
	}
	return s
}
