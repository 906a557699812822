package check

import (
	"fmt"
	"slices"
	"time"

	"github.com/belfry-mq/belfry/test/chaos/history"
)

// findRedeliveries marks the deliveries that may be redeliveries, and the acks of these deliveries.
func (r *reader) findRedeliveries() {
	if len(r.group.redrives) == 0 {
		return
	}
	leases := map[string]bool{}
	for _, d := range r.deliveries {
		d.redelivery = true
		for _, e := range d.entries {
			if r.gen != nil {
				d.redelivery = d.redelivery && r.redrivenBy(d, e)
				continue
			}
			d.redelivery = d.redelivery && r.comesBack(e, 0, d.op.End)
		}
		if d.redelivery && d.op.LeaseID != "" {
			leases[d.op.LeaseID] = true
		}
	}
	for _, a := range r.acks {
		a.redelivery = leases[a.op.LeaseID]
	}
}

// comesBack reports whether a message, which was settled at the given instant, may be delivered again before the deadline.
// This is possible if the message was dead-lettered and redriven.
func (r *reader) comesBack(e *entry, settled, deadline time.Duration) bool {
	if len(r.group.redrives) == 0 {
		return false
	}
	for _, a := range r.deadLetteringAcks(e) {
		if (a.uncertain() || a.op.End >= settled) && a.op.Begin < deadline && r.redriven(max(settled, a.op.Begin), deadline) {
			return true
		}
	}
	return false
}

// deadLetteringAcks returns the acks that may have made a message a dead letter.
func (r *reader) deadLetteringAcks(e *entry) []*ack {
	if r.deadLettering == nil {
		r.deadLettering = map[*entry][]*ack{}
		for _, one := range r.sameGroup() {
			for _, a := range one.acks {
				if a.mayDeadLetter() {
					r.deadLettering[a.entry] = append(r.deadLettering[a.entry], a)
				}
			}
		}
	}
	return r.deadLettering[e]
}

// since returns the begin of the first ack under the lease of a that may have made the message of a a dead letter.
// The server confirms a repeated ack even if the message was redriven in the meantime.
func (r *reader) since(a *ack) time.Duration {
	for _, other := range r.deadLetteringAcks(a.entry) {
		if other.op.LeaseID == a.op.LeaseID {
			return min(a.op.Begin, other.op.Begin)
		}
	}
	return a.op.Begin
}

// mixed returns a violation if a delivery has both redriven messages and messages of the log.
func (r *reader) mixed(d *delivery) []Violation {
	if len(r.group.redrives) == 0 || d.redelivery {
		return nil
	}
	var log, back *entry
	for _, e := range d.entries {
		if r.gen != nil {
			if r.redrivenBy(d, e) {
				back = e
			} else if e.ordinal > 0 {
				log = e
			}
			continue
		}
		switch burials := r.deadLetteringAcks(e); {
		case e.ordinal == 0:
		case len(burials) == 0:
			log = e
		case !burials[0].uncertain() && burials[0].op.End < d.after:
			back = e
		}
	}
	if log == nil || back == nil {
		return nil
	}
	return []Violation{r.at("order", d.op, fmt.Sprintf(
		"the delivery has %q at %d, which was dead-lettered and redriven, together with %q at %d, which was not",
		back.transaction, back.seq, log.transaction, log.seq))}
}

// redriveResults checks dead letters. A dead letter that disappeared was redriven and delivered again. A dead letter
// that a successful redrive covered does not remain.
func (r *reader) redriveResults(dead map[int64]bool) []Violation {
	var found []Violation
	waiting := map[int64]bool{}
	for _, seq := range r.cursor.Redriven {
		waiting[seq] = true
	}
	var acks []*ack
	for _, one := range r.sameGroup() { // a seek keeps the dead letters
		acks = append(acks, one.acks...)
	}
	for _, a := range acks {
		if a.uncertain() || !a.mayDeadLetter() {
			continue
		}
		e := a.entry
		switch {
		case e.deleted != nil: // the dead letter was deleted with its message
		case !dead[e.seq] && !r.redriven(r.since(a), forever):
			found = append(found, r.at("dead", a.op, fmt.Sprintf(
				"the ack was answered that %q at %d is a dead letter, but the tables do not have it", e.transaction, e.seq)))
		case !dead[e.seq] && !waiting[e.seq] && len(r.lostAutoAcks()) == 0 && !r.deliveredAfterRedrive(a):
			found = append(found, r.at("dead", a.op, fmt.Sprintf(
				"%q at %d was dead-lettered and redriven, but it was never delivered again", e.transaction, e.seq)))
		case dead[e.seq]:
			if op := r.failedRedrive(e); op != nil {
				found = append(found, r.at("dead", op, fmt.Sprintf(
					"%q at %d became a dead letter by operation %d, answered before this redrive began, and is still a dead letter", e.transaction, e.seq, a.op.ID)))
			}
		}
	}
	return found
}

// deliveredAfterRedrive reports whether a message may have been delivered after an ack and a following redrive.
func (r *reader) deliveredAfterRedrive(a *ack) bool {
	if r.gen != nil {
		return r.redeliveredAfter(a)
	}
	for _, d := range r.deliveries {
		for _, e := range d.entries {
			if e == a.entry && d.op.End > r.since(a) && r.redriven(r.since(a), d.op.End) {
				return true
			}
		}
	}
	return false
}

// failedRedrive returns a successful redrive that began after all acks that may have made the message a dead letter.
func (r *reader) failedRedrive(e *entry) *history.Operation {
	last := time.Duration(0)
	for _, a := range r.deadLetteringAcks(e) {
		if a.uncertain() {
			return nil
		}
		last = max(last, a.op.End)
	}
	for _, op := range r.group.redrives {
		if r.lane.concerns(op) && op.Outcome == history.Done && op.Begin > last {
			return op
		}
	}
	return nil
}

// settledAt returns the time when all messages of a redelivery were settled, so that its lease had ended. forever
// means unknown.
func (r *reader) settledAt(d *delivery) time.Duration {
	done := map[*entry]time.Duration{}
	for _, a := range r.acks {
		if a.op.LeaseID == d.op.LeaseID && !a.uncertain() && (a.completes() || a.mayDeadLetter()) {
			if _, ok := done[a.entry]; !ok {
				done[a.entry] = a.op.End
			}
		}
	}
	at := time.Duration(0)
	for _, e := range d.entries {
		end, ok := done[e]
		if !ok {
			return forever
		}
		at = max(at, end)
	}
	return at
}

// redriveWait returns the period from the certain end of a redrive to the claim of the next pop that delivered the
// message.
func (r *reader) redriveWait(e *entry) []span {
	burials := r.deadLetteringAcks(e)
	if len(r.group.redrives) == 0 || len(burials) == 0 || burials[0].uncertain() || len(r.lostAutoAcks()) > 0 {
		return nil
	}
	died := burials[0].op.End
	var next *delivery
	for _, one := range r.sameGroup() {
		for _, d := range one.deliveries {
			came := slices.Contains(d.entries, e) && (r.gen == nil || r.redrivenBy(d, e))
			if came && d.op.End > died && (next == nil || d.op.End < next.op.End) {
				next = d
			}
		}
	}
	for _, op := range r.group.redrives {
		if op.Begin <= died || op.Outcome != history.Done || !r.lane.concerns(op) {
			continue
		}
		if next == nil || next.op.End <= op.Begin || next.after <= op.End {
			return nil
		}
		s := span{op.End, next.after, op}
		if r.gen != nil { // the wait continues in the next generation
			s.from, s.to = max(s.from, r.begun()), min(s.to, r.gen.ended)
		}
		if s.from >= s.to {
			return nil
		}
		return []span{s}
	}
	return nil
}
