package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/belfry-mq/belfry/test/chaos/history"
)

// ruleStuck is the name of the only rule about time limits.
const ruleStuck = "stuck"

// span is a period in a history.
type span struct {
	from, to time.Duration
	// op is the cause of the span: the delivery that holds a lease, or the push of a message that waits.
	op *history.Operation
}

// stuck checks waiting pops. No pop may wait longer than the bound while a message is certainly ready and unleased,
// whether it then returns empty or receives the message late. A consumer in SQL must be woken within the same bound.
func stuck(x *index) []Violation {
	o := &x.options
	if o.WakeBound <= 0 {
		return nil
	}
	var found []Violation
	for _, g := range x.groups {
		byEnd := slices.SortedStableFunc(slices.Values(g.empty), func(a, b *history.Operation) int { return cmp.Compare(a.End, b.End) })
		longest := time.Duration(0)
		for _, op := range byEnd {
			longest = max(longest, op.End-op.Begin)
		}
		for _, r := range g.readers {
			leased, ready := r.leased(x), r.lane.ready()
			found = append(found, r.late(o, leased, ready)...)
			for _, free := range without(r.waiting(ready), merged(leased)) {
				if free.to-free.from > o.WakeBound {
					found = append(found, r.starved(o, free, byEnd, longest)...)
				}
			}
		}
	}
	return found
}

// starved returns a violation by the first operation of byEnd that waited too long during free and received no
// message.
func (r *reader) starved(o *Options, free span, byEnd []*history.Operation, longest time.Duration) []Violation {
	first, _ := slices.BinarySearchFunc(byEnd, free.from, func(op *history.Operation, at time.Duration) int { return cmp.Compare(op.End, at) })
	for _, op := range byEnd[first:] {
		if op.End-longest > free.to {
			break
		}
		from, to := max(op.Begin, free.from), min(op.End, free.to)
		if !r.lane.concerns(op) || to-from <= o.allowedWait(op, from, to) {
			continue
		}
		what := "the pop came back empty"
		if op.Kind == history.Await {
			what = "the wait in SQL ended"
		}
		return []Violation{r.at(ruleStuck, op, fmt.Sprintf(
			"%s after %s, although a message pushed by operation %d was ready and unleased for %s of this time (from %s to %s)",
			what, op.End-op.Begin, free.op.ID, to-from, from, to))}
	}
	return nil
}

// waiting returns the periods in which the reader certainly had a message. A period begins when the message is stored
// and visible. It ends when the last pop that delivered the message may have claimed it.
func (r *reader) waiting(ready []time.Duration) []span {
	until := make([]time.Duration, len(r.lane.log)+1)
	for _, d := range r.deliveries {
		for _, e := range d.entries {
			if !d.redelivery {
				until[e.ordinal] = max(until[e.ordinal], d.after)
			}
		}
	}
	if r.cursor == nil {
		return nil
	}
	dead, begun, ended := r.dead(), r.begun(), forever
	if r.gen != nil {
		ended = r.gen.ended
	}
	first, _ := r.start()
	var spans []span
	for _, e := range r.lane.log {
		to := until[e.ordinal]
		spans = append(spans, r.redriveWait(e)...)
		if r.gen != nil && e.ordinal <= first {
			continue
		}
		if e.seq > r.cursor.Committed && !dead[e.seq] && e.deleted == nil && (len(r.group.redrives) == 0 || len(r.deadLetteringAcks(e)) == 0) {
			to = forever
		}
		to = min(to, ended)
		if from := max(ready[e.ordinal], begun); from < to && e.push != nil {
			spans = append(spans, span{from, to, e.push})
		}
	}
	return merged(spans)
}

// leased returns the longest possible periods of leases of the reader, sorted by their begin.
func (r *reader) leased(x *index) []span {
	last := map[string]int{} // the last ordinal that each lease delivered
	for _, d := range r.deliveries {
		for _, e := range d.entries {
			last[d.op.LeaseID] = max(last[d.op.LeaseID], e.ordinal)
		}
	}
	released := r.released(last)
	var spans []span
	for _, d := range r.deliveries {
		if d.op.AutoAck {
			continue
		}
		to := d.op.End
		for _, op := range x.possibleExtends[d.op.LeaseID] {
			to = max(to, op.End)
		}
		to += x.options.LeaseDuration
		if d.redelivery {
			to = min(to, max(d.op.End, r.settledAt(d)))
		} else if at, ok := released[d.op.LeaseID]; ok {
			to = min(to, at)
		}
		spans = append(spans, span{d.after, to, d.op})
	}
	for _, op := range r.group.unknown {
		if r.lane.concerns(op) {
			spans = append(spans, span{op.Begin, op.End + x.options.LeaseDuration, op})
		}
	}
	for _, op := range r.group.lostAutoAcks {
		if r.lane.concerns(op) {
			spans = append(spans, span{op.Begin, op.End, op})
		}
	}
	for _, op := range x.rewinds { // the promotion may lose the lease that held messages during it
		spans = append(spans, span{op.Begin, op.End, op})
	}
	slices.SortStableFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	return spans
}

// released returns, for each lease id, the time when the lease had certainly ended. last has the last ordinal that
// each lease delivered.
func (r *reader) released(last map[string]int) map[string]time.Duration {
	done := map[string]int{} // the last ordinal that each lease may have completed
	for _, a := range r.acks {
		if a.completes() {
			done[a.op.LeaseID] = max(done[a.op.LeaseID], a.entry.ordinal)
		}
	}
	released := map[string]time.Duration{}
	for _, a := range r.acks {
		lease := a.op.LeaseID
		if lease == "" || a.uncertain() || last[lease] == 0 {
			continue
		}
		// A failed ack of a message that was completed before has no effect.
		ends := a.completes() && a.entry.ordinal >= last[lease] ||
			!a.completes() && !a.item.DeadLettered && a.entry.ordinal > done[lease]
		if at, ok := released[lease]; ends && (!ok || a.op.End < at) {
			released[lease] = a.op.End
		}
	}
	return released
}

// late returns a violation if a waiting pop receives a ready message after the bound.
func (r *reader) late(o *Options, leased []span, ready []time.Duration) []Violation {
	// longest and second are the two leases with the latest ends among the leases that began so far.
	var longest, second span
	var found []Violation
	begun := r.begun()
	waited := slices.SortedStableFunc(slices.Values(r.deliveries), func(a, b *delivery) int { return cmp.Compare(a.op.End, b.op.End) })
	for _, d := range waited {
		for len(leased) > 0 && leased[0].from < d.op.End {
			switch s := leased[0]; {
			case longest.op == nil || s.to > longest.to:
				longest, second = s, longest
			case second.op == nil || s.to > second.to:
				second = s
			}
			leased = leased[1:]
		}
		first := d.first()
		if d.op.Wait == 0 || d.redelivery || first == nil || first.push == nil {
			continue
		}
		other := longest
		if other.op == d.op {
			other = second
		}
		from := max(d.op.Begin, ready[first.ordinal], begun)
		if other.op != nil {
			from = max(from, other.to)
		}
		if d.op.End-from > o.allowedWait(d.op, from, d.op.End) {
			found = append(found, r.at(ruleStuck, d.op, fmt.Sprintf(
				"the pop waited and received %q at %d %s after the message was ready and unleased, at %s",
				first.transaction, first.seq, d.op.End-from, from)))
		}
	}
	return found
}

// merged sorts spans, and joins spans that overlap or touch.
func merged(spans []span) []span {
	spans = slices.SortedStableFunc(slices.Values(spans), func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var joined []span
	for _, s := range spans {
		if n := len(joined); n > 0 && s.from <= joined[n-1].to {
			joined[n-1].to = max(joined[n-1].to, s.to)
			continue
		}
		joined = append(joined, s)
	}
	return joined
}

// without returns the parts of spans outside of covers. Both arguments are sorted and disjoint.
func without(spans, covers []span) []span {
	var left []span
	for _, s := range spans {
		for len(covers) > 0 && covers[0].to <= s.from {
			covers = covers[1:]
		}
		for _, c := range covers {
			if c.from >= s.to {
				break
			}
			if c.from > s.from {
				left = append(left, span{s.from, c.from, s.op})
			}
			s.from = max(s.from, c.to)
		}
		if s.from < s.to {
			left = append(left, s)
		}
	}
	return left
}
