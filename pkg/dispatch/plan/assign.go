package plan

import (
	"cmp"
	"slices"
	"time"
)

// Assign gives partitions to intents, as the package doc promises. It returns one decision per
// intent, in the order of the intents, which is the order of service. It changes neither intents nor candidates and never blocks.
//
// The caller increments rotate from round to round. rotate selects which of several equally deep
// partitions is given first.
//
// doubleAssignments counts the rows that repeat a candidate. Each of them would have assigned one
// partition twice to one group. A correct preflight returns none.
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

// byGroup returns the indexes of the intents, group by group. Those that name a partition are first.
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

// serveAny decides the intents of one group that take any partition. It gives one partition to each
// intent. While partitions are left, it gives one more to each intent that may have more.
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

// skip records the decision that stands if the intent gets nothing.
func (r *round) skip(i int, outcome Outcome) {
	r.decisions[i] = Decision{Outcome: outcome}
}

// grant adds a partition to the decision of intent i.
func (r *round) grant(i int, partition int64) {
	d := &r.decisions[i]
	d.Outcome = ViableAssigned
	d.Partitions = append(d.Partitions, partition)
}
