package check

import (
	"fmt"
	"time"
)

// These functions check redriven messages of groups that are sought. A seek neither removes nor adds a redriven
// message. The log may deliver the same message too. The lease shows which delivery is a redelivery (Redelivered).

// sameGroup returns the readers of the same consumer group in the lane: all generations with the same group id.
func (r *reader) sameGroup() []*reader {
	if r.gen == nil {
		return []*reader{r}
	}
	var all []*reader
	for _, other := range r.lane.generations[r.group.group] {
		if other.gen.GroupID == r.gen.GroupID {
			all = append(all, other)
		}
	}
	return all
}

// redrivenBy reports whether a delivery contains a message because of a redrive.
func (r *reader) redrivenBy(d *delivery, e *entry) bool {
	return e.ordinal > 0 && r.lane.redelivered[d.op.LeaseID][e.seq]
}

// redeliveredAfter reports whether a redelivery of a message followed the ack that made it a dead letter. An earlier
// redrive may have caused this redelivery.
func (r *reader) redeliveredAfter(a *ack) bool {
	since := r.since(a)
	for _, one := range r.sameGroup() {
		for _, d := range one.deliveries {
			if d.op.End <= since || !d.redelivery {
				continue
			}
			for _, e := range d.entries {
				if e == a.entry {
					return true
				}
			}
		}
	}
	return false
}

// redriveSettlement is the settlement of a redriven message under a lease. It happened between since and by. by is
// the time of the answer to the ack.
type redriveSettlement struct {
	since, by time.Duration
	op        int64
}

// redriveSettlements returns the certain settlements of redriven messages, for each message and lease.
func (r *reader) redriveSettlements() map[*entry]map[string]redriveSettlement {
	ends := map[*entry]map[string]redriveSettlement{}
	for _, a := range r.acks {
		if !a.redelivery || !a.completes() && !a.mayDeadLetter() {
			continue
		}
		of := ends[a.entry]
		if of == nil {
			of = map[string]redriveSettlement{}
			ends[a.entry] = of
		}
		one, ok := of[a.op.LeaseID]
		if !ok {
			one = redriveSettlement{since: a.op.Begin, by: forever}
		}
		one.since = min(one.since, a.op.Begin)
		if !a.uncertain() && a.op.End < one.by {
			one.by, one.op = a.op.End, a.op.ID
		}
		of[a.op.LeaseID] = one
	}
	return ends
}

// redelivered checks that each redelivered message was redriven, and was redriven again after each settlement.
func redelivered(x *index) []Violation {
	var found []Violation
	x.readers(func(r *reader) {
		if r.gen == nil {
			return
		}
		var ends []map[*entry]map[string]redriveSettlement
		for _, one := range r.sameGroup() {
			ends = append(ends, one.redriveSettlements())
		}
		for _, d := range r.deliveries {
			for _, e := range d.entries {
				if why := r.wrongRedelivery(d, e, ends); why != "" {
					found = append(found, r.at("again", d.op, fmt.Sprintf("%q at %d was redelivered, but %s", e.transaction, e.seq, why)))
				}
			}
		}
	})
	return found
}

// wrongRedelivery returns why a redelivery of a message was wrong. It returns "" if the redelivery was right, or if
// the message came from the log.
func (r *reader) wrongRedelivery(d *delivery, e *entry, ends []map[*entry]map[string]redriveSettlement) string {
	if !r.redrivenBy(d, e) {
		return ""
	}
	dead := false
	for _, a := range r.deadLetteringAcks(e) {
		dead = dead || a.op.Begin < d.op.End && r.redriven(a.op.Begin, d.op.End)
	}
	if !dead {
		return "no redrive of this dead letter can have caused this"
	}
	for _, of := range ends {
		for _, one := range of[e] {
			if one.by < d.after && !r.redriven(one.since, d.op.End) {
				return fmt.Sprintf("operation %d settled it, answered %s before this pop claimed, and no redrive followed", one.op, d.after-one.by)
			}
		}
	}
	return ""
}
