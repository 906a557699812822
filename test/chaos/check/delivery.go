package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/belfry-mq/belfry/test/chaos/history"
)

// The statuses of an ack.
const (
	completed  = "completed"
	success    = "success"
	failed     = "failed"
	deadAtOnce = "dlq"
)

// completes reports whether the ack moves the cursor past its message.
func (a *ack) completes() bool { return a.item.Status == completed || a.item.Status == success }

// mayDeadLetter reports whether the ack made its message a dead letter. For an ack of unknown outcome, it reports
// whether the ack may have done so.
func (a *ack) mayDeadLetter() bool {
	if a.uncertain() {
		return a.item.Status == failed || a.item.Status == deadAtOnce
	}
	return a.item.DeadLettered
}

// deliveries checks that the messages of a delivery are in order, and that no message before the delivery is skipped.
func deliveries(x *index) []Violation {
	var found []Violation
	x.readers(func(r *reader) {
		found = append(found, r.ordered()...)
		found = append(found, r.unskipped()...)
	})
	return found
}

// deadLetteredFrom returns, for each ordinal, the begin of the first ack that may have made the message a dead
// letter.
func (r *reader) deadLetteredFrom() map[int]time.Duration {
	deadLettered := map[int]time.Duration{}
	for _, a := range r.acks {
		if _, ok := deadLettered[a.entry.ordinal]; a.mayDeadLetter() && !ok {
			deadLettered[a.entry.ordinal] = a.op.Begin
		}
	}
	for ordinal, at := range r.expiredFrom() {
		if before, ok := deadLettered[ordinal]; !ok || at < before {
			deadLettered[ordinal] = at
		}
	}
	return deadLettered
}

// ordered checks that the positions in a delivery ascend, and that each message left out is a dead letter or deleted.
func (r *reader) ordered() []Violation {
	var found []Violation
	deadLettered := r.deadLetteredFrom()
	for _, d := range r.deliveries {
		found = append(found, r.mixed(d)...)
		last := 0
		for _, e := range d.entries {
			if e.ordinal == 0 {
				continue
			}
			if last > 0 && e.ordinal <= last {
				found = append(found, r.at("order", d.op, fmt.Sprintf(
					"the delivery has %q at %d after %q at %d", e.transaction, e.seq,
					r.lane.log[last-1].transaction, r.lane.log[last-1].seq)))
				break
			}
			for n := last + 1; last > 0 && n < e.ordinal && !d.redelivery; n++ {
				if r.lane.skippableFrom(r.lane.log[n-1]) < d.op.End || r.gen != nil && r.gen.skip[n] {
					continue
				}
				if at, ok := deadLettered[n]; !ok || at >= d.op.End {
					found = append(found, r.at("order", d.op, fmt.Sprintf(
						"the delivery leaves out %q at %d, which is neither dead-lettered nor deleted, between %d and %d",
						r.lane.log[n-1].transaction, r.lane.log[n-1].seq, r.lane.log[last-1].seq, e.seq)))
					break
				}
			}
			last = e.ordinal
		}
	}
	return found
}

// first returns the first stored message of a delivery, or nil.
func (d *delivery) first() *entry {
	for _, e := range d.entries {
		if e.ordinal > 0 {
			return e
		}
	}
	return nil
}

// settlement is the final outcome of a message for a reader. After it, the message must not be delivered again.
type settlement struct {
	at time.Duration
	op *history.Operation
	// upto means that everything up to ordinal is settled, not only the message at ordinal.
	upto    bool
	ordinal int
	how     string
	// since is the earliest time of the settlement.
	since time.Duration
}

// settlements returns the settlements that are certain, ordered by the time of their answer.
func (r *reader) settlements(x *index) []settlement {
	var overs []settlement
	for _, a := range r.acks {
		switch {
		case r.gen != nil && a.redelivery: // the ack of a redelivered message says nothing about the log
		case a.uncertain() && !a.completes():
		case a.uncertain():
			// The ack was applied if its transaction was applied.
			if t := x.transacted[a.op.Transaction]; t != nil && t.appliedBy() != forever {
				overs = append(overs, settlement{t.appliedBy(), a.op, !a.redelivery, a.entry.ordinal, "was completed", a.op.Begin})
			}
		case a.completes():
			overs = append(overs, settlement{a.op.End, a.op, !a.redelivery, a.entry.ordinal, "was completed", a.op.Begin})
		case a.mayDeadLetter():
			overs = append(overs, settlement{a.op.End, a.op, false, a.entry.ordinal, "was dead-lettered", r.since(a)})
		}
	}
	for _, d := range r.deliveries {
		if d.op.AutoAck && d.redelivery {
			for _, e := range d.entries {
				overs = append(overs, settlement{d.op.End, d.op, false, e.ordinal, "was consumed by autoAck", d.after})
			}
			continue
		}
		if last := d.entries[len(d.entries)-1]; d.op.AutoAck && last.ordinal > 0 {
			overs = append(overs, settlement{d.op.End, d.op, true, last.ordinal, "was consumed by autoAck", d.after})
		}
	}
	slices.SortStableFunc(overs, func(a, b settlement) int { return cmp.Compare(a.at, b.at) })
	return overs
}

// notDeliveredAgain checks that no pop delivers a message that was settled before the pop claimed.
func notDeliveredAgain(x *index) []Violation {
	var found []Violation
	x.readers(func(r *reader) { found = append(found, r.notDeliveredAgain(x)...) })
	return found
}

func (r *reader) notDeliveredAgain(x *index) []Violation {
	var found []Violation
	overs := r.settlements(x)
	var highest, transacted settlement
	alone := map[int]settlement{}
	for _, d := range slices.SortedStableFunc(slices.Values(r.deliveries), func(a, b *delivery) int { return cmp.Compare(a.after, b.after) }) {
		if r.gen != nil && d.redelivery {
			continue // the function redelivered checks this delivery
		}
		for len(overs) > 0 && overs[0].at < d.after {
			o := overs[0]
			switch {
			case !o.upto:
				alone[o.ordinal] = o
			case o.ordinal > highest.ordinal:
				highest = o
			}
			if o.upto && o.ordinal > transacted.ordinal && x.transacted[o.op.Transaction] != nil {
				transacted = o
			}
			overs = overs[1:]
		}
		for _, e := range d.entries {
			if e.ordinal == 0 {
				continue
			}
			o, ok := alone[e.ordinal]
			if !ok && e.ordinal <= highest.ordinal {
				o, ok = highest, true
			}
			from := o.since
			if o.upto {
				from = 0 // the message may have been a dead letter when the cursor passed it
			}
			if !ok || r.gen == nil && r.comesBack(e, from, d.op.End) {
				continue
			}
			found = append(found, r.at("again", d.op, fmt.Sprintf(
				"%q at %d was delivered, but the message at %d %s by operation %d, answered %s before this pop claimed",
				e.transaction, e.seq, r.lane.log[o.ordinal-1].seq, o.how, o.op.ID, d.after-o.at)))
			if e.ordinal <= transacted.ordinal {
				found = append(found, x.transacted[transacted.op.Transaction].at(r, d.op, fmt.Sprintf(
					"it was applied and acknowledged all messages up to %q at %d or later, but this message was delivered %s afterwards", e.transaction, e.seq, d.after-transacted.at)))
			}
			break
		}
	}
	return found
}

// dead checks the dead letters in the tables: each dead letter that an ack reported is there, and an ack can have
// caused each of them.
func dead(x *index) []Violation {
	var found []Violation
	x.readers(func(r *reader) {
		if r.cursor == nil || r.gen != nil && (!r.gen.live || !r.gen.last) {
			return
		}
		deadLettered := r.deadLetteredFrom()
		for _, other := range r.lane.generations[r.group.group] {
			if other.gen.live {
				maps.Copy(deadLettered, other.deadLetteredFrom())
			}
		}
		dead := map[int64]bool{}
		for _, seq := range r.cursor.Dead {
			dead[seq] = true
		}
		found = append(found, r.redriveResults(dead)...)
		for _, e := range r.lane.log {
			if _, ok := deadLettered[e.ordinal]; dead[e.seq] && !ok {
				found = append(found, r.at("dead", nil, fmt.Sprintf(
					"%q at %d is a dead letter, but no ack can have caused this", e.transaction, e.seq)))
			}
		}
	})
	return found
}
