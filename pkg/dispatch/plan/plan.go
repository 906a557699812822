package plan

import (
	"cmp"
	"slices"
	"time"
)

// Key is the target of an intent.
type Key struct {
	// Group is the row id of the consumer group, which belongs to one queue.
	Group int64
	// Partition is the row id of the named partition. 0: any partition of the group's queue.
	Partition int64
}

// any reports whether the intent takes any partition of the queue.
func (k Key) any() bool { return k.Partition == 0 }

// Intent is one waiting pop request.
type Intent struct {
	Key Key
	// Partitions is the maximum number of partitions that the intent may claim. A value below 1 counts as 1. An intent that names
	// a partition ignores Partitions.
	Partitions int
	// Deadline is the latest instant at which the intent is answered. From then on
	// the intent gets nothing.
	Deadline time.Time
}

// Candidate is one row of a preflight: a partition that has messages for the group. The partition is poppable if ReadyAt is not
// after now and no flag is set.
type Candidate struct {
	Group, Partition int64
	// ReadyAt is when the partition is due: the end of the delay, of the window or of the lease.
	ReadyAt time.Time
	// Depth is the number of messages that wait in the partition for the group.
	Depth int64
	// WindowOpen: the window buffer of the queue still collects messages. Delayed: the
	// first message is not visible yet.
	Leased, WindowOpen, Delayed, Paused bool
	// Limited: the limits of the group allow no claim now.
	Limited bool
}

// Decision is the result for one intent.
type Decision struct {
	Outcome Outcome
	// Partitions are the partitions to claim, in the order in which they were given. They are nil if Outcome is not
	// ViableAssigned.
	Partitions []int64
}

// Outcome is the result for an intent. Its text is a metric label and a log field.
type Outcome string

// The outcomes are in order: a candidate with an earlier outcome is nearer to poppable. An intent that gets nothing has the
// outcome of its nearest candidate. A candidate with several obstacles has the outcome of the farthest obstacle. An expired
// intent with a poppable candidate has SkipPartitionUnavailable.
const (
	ViableAssigned           Outcome = "viable_assigned"
	SkipPartitionUnavailable Outcome = "skip_partition_unavailable" // other intents got all poppable candidates
	SkipLimited              Outcome = "skip_limited"
	SkipLeaseTaken           Outcome = "skip_lease_taken"
	SkipWindowBuffer         Outcome = "skip_window_buffer"
	SkipDelayed              Outcome = "skip_delayed"
	SkipPaused               Outcome = "skip_paused" // only a resume makes the partition poppable
	SkipNoPartitions         Outcome = "skip_no_partitions"
)

// Assign gives partitions to intents, as the package doc promises. It serves the intents in their order, and
// returns one decision per intent in the same order. It changes neither intents nor candidates and never blocks.
//
// The caller increments rotate from round to round. rotate selects which of several equally deep
// partitions is given first.
//
// doubleAssignments counts the rows that repeat a candidate. Such a row could assign one partition twice to one group. A correct
// preflight returns no such row.
func Assign(now time.Time, rotate uint64, intents []Intent, candidates []Candidate) (decisions []Decision, doubleAssignments int) {
	offers, repeated := offersOf(now, candidates)
	r := round{now: now, rotate: rotate, intents: intents, decisions: make([]Decision, len(intents))}
	// Each group is decided alone, because candidates belong to one group. Both lists
	// are sorted by group and read from front to back.
	for queue := r.byGroup(); len(queue) > 0; {
		group := intents[queue[0]].Key.Group
		asking := prefix(queue, func(i int) bool { return intents[i].Key.Group == group })
		queue = queue[len(asking):]

		offers = offers[len(prefix(offers, func(o offer) bool { return o.Group < group })):]
		offered := prefix(offers, func(o offer) bool { return o.Group == group })

		specific := prefix(asking, func(i int) bool { return !intents[i].Key.any() })
		r.serveSpecific(specific, offered)
		r.serveAny(asking[len(specific):], offered)
	}
	return r.decisions, repeated
}

// round is one call of Assign. Intents and their decisions have the same index.
type round struct {
	now       time.Time
	rotate    uint64
	intents   []Intent
	decisions []Decision
}

// byGroup returns the indexes of the intents, group by group. In a group, the intents that name a partition
// are first.
func (r *round) byGroup() []int {
	order := make([]int, len(r.intents))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		a, b := r.intents[i].Key, r.intents[j].Key
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(b.Partition, a.Partition))
	})
	return order
}

// live reports whether the deadline of intent i is still to come.
func (r *round) live(i int) bool { return r.intents[i].Deadline.After(r.now) }

// serveSpecific decides the intents of one group that name their partition.
// offered is sorted by partition.
func (r *round) serveSpecific(ranked []int, offered []offer) {
	for _, i := range ranked {
		at, found := slices.BinarySearchFunc(offered, r.intents[i].Key.Partition, func(o offer, partition int64) int {
			return cmp.Compare(o.Partition, partition)
		})
		if !found {
			r.skip(i, SkipNoPartitions)
			continue
		}
		r.skip(i, skipReason(offered[at:at+1]))
		if o := &offered[at]; o.obstacle == poppable && !o.taken && r.live(i) {
			o.taken = true
			r.grant(i, o.Partition)
		}
	}
}

// serveAny decides the intents of one group that take any partition. It gives one partition to each intent. While partitions are
// left, it gives one more partition to each intent that may have more partitions.
func (r *round) serveAny(ranked []int, offered []offer) {
	if len(ranked) == 0 {
		return
	}
	outcome := skipReason(offered)
	wanting := make([]int, 0, len(ranked))
	for _, i := range ranked {
		r.skip(i, outcome)
		if r.live(i) {
			wanting = append(wanting, i)
		}
	}
	rest := freeOffers(r.rotate, offered)
	for len(wanting) > 0 && len(rest) > 0 {
		more := wanting[:0]
		for _, i := range wanting[:min(len(wanting), len(rest))] {
			r.grant(i, rest[0].Partition)
			rest = rest[1:]
			if len(r.decisions[i].Partitions) < r.intents[i].Partitions {
				more = append(more, i)
			}
		}
		wanting = more
	}
}

// skip records the outcome for the case that the intent gets nothing. grant replaces the outcome.
func (r *round) skip(i int, outcome Outcome) {
	r.decisions[i] = Decision{Outcome: outcome}
}

// grant adds a partition to the decision of intent i.
func (r *round) grant(i int, partition int64) {
	d := &r.decisions[i]
	d.Outcome = ViableAssigned
	d.Partitions = append(d.Partitions, partition)
}

// obstacle is the reason why a candidate is not poppable. The obstacle that is
// nearest to poppable has the lowest value.
type obstacle int

const (
	poppable obstacle = iota
	limited
	leased
	windowOpen
	delayed
	paused
	absent // no candidate at all
)

// outcomes are the outcomes of an intent that gets nothing, by its nearest obstacle.
var outcomes = [...]Outcome{
	poppable:   SkipPartitionUnavailable,
	limited:    SkipLimited,
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
	case c.Limited:
		return limited
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

// merged joins two rows of one partition. The partition is poppable only if it is poppable in both rows. The order of the rows
// does not matter.
func merged(a, b Candidate) Candidate {
	if b.ReadyAt.After(a.ReadyAt) {
		a.ReadyAt = b.ReadyAt
	}
	a.Depth = max(a.Depth, b.Depth)
	a.Leased = a.Leased || b.Leased
	a.WindowOpen = a.WindowOpen || b.WindowOpen
	a.Delayed = a.Delayed || b.Delayed
	a.Paused = a.Paused || b.Paused
	a.Limited = a.Limited || b.Limited
	return a
}

// skipReason returns the outcome of an intent that may take any of these offers and gets none of them.
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
