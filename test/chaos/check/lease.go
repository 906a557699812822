package check

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/belfry-mq/belfry/test/chaos/history"
)

// leaseSpan is the period in which a lease was certainly alive in one lane. The lease was alive at some time during
// each operation that was accepted under it: the pop that took the lease, acks and extends.
type leaseSpan struct {
	lease string
	// by is the earliest end of these operations: the lease was alive at this time or earlier. after is the latest
	// begin: the lease was alive at this time or later.
	by, after time.Duration
	byOp      *history.Operation
	afterOp   *history.Operation
}

func (l *leaseSpan) observe(op *history.Operation, after time.Duration) {
	if op.End < l.by {
		l.by, l.byOp = op.End, op
	}
	if after > l.after || l.afterOp == nil {
		l.after, l.afterOp = after, op
	}
}

// leaseSpans returns the leases of a reader.
func (r *reader) leaseSpans(x *index) []*leaseSpan {
	var lives []*leaseSpan
	byLease := map[string]*leaseSpan{}
	for _, d := range r.deliveries {
		if d.op.LeaseID == "" {
			continue
		}
		l := byLease[d.op.LeaseID]
		if l == nil {
			l = &leaseSpan{lease: d.op.LeaseID, by: forever}
			byLease[d.op.LeaseID] = l
			lives = append(lives, l)
		}
		l.observe(d.op, d.after)
	}
	for _, a := range r.acks {
		if l := byLease[a.op.LeaseID]; l != nil && !a.uncertain() && x.firstAttempt(a.op) {
			l.observe(a.op, a.op.Begin)
		}
	}
	for _, l := range lives {
		owner := x.owners[l.lease][0]
		if !oneLane(owner) {
			continue // the lease is in several lanes, and the extend may have extended only some of them
		}
		for _, op := range x.extends[l.lease] {
			l.observe(op, op.Begin)
		}
	}
	return lives
}

func oneLane(op *history.Operation) bool {
	return !slices.ContainsFunc(op.Items, func(item history.Item) bool { return item.Partition != op.Items[0].Partition })
}

// leases checks that no two leases of a reader are alive at the same time, and that no lease id is given twice. The
// first of two leases must end before the second begins. So nothing is accepted under the first lease after the first
// accepted operation of the second.
func leases(x *index) []Violation {
	var found []Violation
	for lease, owners := range x.owners {
		if len(owners) > 1 {
			v := Violation{Rule: "lease", Operation: owners[1].ID, Message: fmt.Sprintf(
				"operation %d received the lease %s before", owners[0].ID, lease)}
			// The violation names the queue only if both pops have the same queue.
			if owners[0].Queue == owners[1].Queue {
				v.Queue = owners[0].Queue
			}
			found = append(found, v)
		}
	}
	x.readers(func(r *reader) { found = append(found, r.overlaps(r.leaseSpans(x))...) })
	return found
}

// overlaps returns a violation for pairs of leases with a.after > b.by and b.after > a.by.
func (r *reader) overlaps(lives []*leaseSpan) []Violation {
	slices.SortStableFunc(lives, func(a, b *leaseSpan) int { return cmp.Compare(a.by, b.by) })
	// latest[i] has the two leases with the largest after among the first i spans.
	type pair struct{ first, second *leaseSpan }
	latest := make([]pair, len(lives)+1)
	for i, l := range lives {
		p := latest[i]
		switch {
		case p.first == nil || l.after > p.first.after:
			p = pair{l, p.first}
		case p.second == nil || l.after > p.second.after:
			p.second = l
		}
		latest[i+1] = p
	}
	var found []Violation
	reported := map[*leaseSpan]*leaseSpan{}
	for _, b := range lives {
		p := latest[sort.Search(len(lives), func(i int) bool { return lives[i].by >= b.after })]
		a := p.first
		if a == b {
			a = p.second
		}
		if a == nil || a.after <= b.by || reported[a] == b {
			continue
		}
		reported[b] = a
		if b.by < a.by {
			a, b = b, a // the lease a began first
		}
		found = append(found, r.at("lease", a.afterOp, fmt.Sprintf(
			"it was accepted under lease %[1]s and began %[2]s after operation %[3]d showed that lease %[4]s was alive; lease %[4]s was also alive in operation %[5]d, which began %[6]s after operation %[7]d showed that lease %[1]s was alive",
			a.lease, a.after-b.by, b.byOp.ID, b.lease, b.afterOp.ID, b.after-a.by, a.byOp.ID)))
	}
	return found
}

// leasePeriods checks that no two leases overlap by the clock of the database.
func leasePeriods(x *index) []Violation {
	var found []Violation
	type holder struct {
		group   string
		groupID int64
	}
	last := map[laneName]map[holder]LeasePeriod{}
	sorted := slices.SortedStableFunc(slices.Values(x.state.LeasePeriods), func(a, b LeasePeriod) int { return a.From.Compare(b.From) })
	for _, t := range sorted {
		name := laneName{t.Queue, t.Partition}
		if last[name] == nil {
			last[name] = map[holder]LeasePeriod{}
		}
		by := holder{t.Group, t.GroupID}
		before, ok := last[name][by]
		if ok && before.LeaseID != t.LeaseID && t.From.Before(before.Until) {
			var op *history.Operation
			if owners := x.owners[t.LeaseID]; len(owners) > 0 {
				op = owners[0]
			}
			found = append(found, x.reader(t.Queue, t.Partition, t.Group).at("lease", op, fmt.Sprintf(
				"by the database's clock lease %s was given %s before lease %s ended", t.LeaseID, before.Until.Sub(t.From), before.LeaseID)))
		}
		if !ok || t.Until.After(before.Until) {
			last[name][by] = t
		}
	}
	return found
}
