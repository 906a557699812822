package check

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/belfry-mq/belfry/test/chaos/history"
)

// leaseSpan is the life of a lease in one lane. The lease was alive at some instant of each operation accepted under
// it: the pop that took it, acks and extends.
type leaseSpan struct {
	lease string
	// by is the earliest end of these operations: the lease was alive then or before. after is the latest begin: the
	// lease was alive then or later.
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
			continue // which of its leases the extend prolonged is unknown
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

// leases: no two leases of a reader are alive at a time, and no lease id is given twice. Of two leases one ends before
// the other begins. So one of them has nothing accepted after the first sign of the other.
func leases(x *index) []Violation {
	var found []Violation
	for lease, owners := range x.owners {
		if len(owners) > 1 {
			v := Violation{Rule: "lease", Operation: owners[1].ID, Message: fmt.Sprintf(
				"the lease %s was given before, by operation %d", lease, owners[0].ID)}
			// The violation names only what the two pops have in common.
			if owners[0].Queue == owners[1].Queue {
				v.Queue = owners[0].Queue
			}
			found = append(found, v)
		}
	}
	x.readers(func(r *reader) { found = append(found, r.overlaps(r.leaseSpans(x))...) })
	return found
}

// overlaps finds pairs of leases with a.after > b.by and b.after > a.by.
func (r *reader) overlaps(lives []*leaseSpan) []Violation {
	slices.SortStableFunc(lives, func(a, b *leaseSpan) int { return cmp.Compare(a.by, b.by) })
	// For each prefix of spans, the two leases that were alive the latest.
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
			a, b = b, a // the older of the two is no longer valid
		}
		found = append(found, r.at("lease", a.afterOp, fmt.Sprintf(
			"it was accepted under lease %s, begun %s after operation %d showed lease %s alive; that one was alive in operation %d, begun %s after operation %d showed the first",
			a.lease, a.after-b.by, b.byOp.ID, b.lease, b.afterOp.ID, b.after-a.by, a.byOp.ID)))
	}
	return found
}

// leasePeriods: by the database's clock no two leases overlap.
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
