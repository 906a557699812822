package check

import (
	"fmt"
	"slices"
	"time"

	"github.com/belfry-mq/belfry/test/chaos/history"
)

// skippableFrom returns the earliest time at which a group may skip a message without a delivery. This is allowed if
// the message was deleted by name, or is older than its queue keeps unread messages. forever means never.
func (l *lane) skippableFrom(e *entry) time.Duration {
	at := forever
	switch {
	case e.deleted != nil && e.deleted.How == Asked:
		for _, op := range e.deletes {
			at = min(at, op.Begin)
		}
	case l.unreadRetention() > 0 && e.after == forever:
		at = 0
	case l.unreadRetention() > 0:
		at = e.after + l.unreadRetention()
	}
	return at
}

// unreadRetention returns the age at which a message may be deleted although a group has not passed it. 0 means
// never.
func (l *lane) unreadRetention() time.Duration {
	switch {
	case l.part == nil:
		return 0
	case l.part.Retention > 0:
		return l.part.Retention
	}
	return l.part.MaxWait
}

// expiredFrom returns the earliest time at which each message expired for the reader. The keys are ordinals.
func (r *reader) expiredFrom() map[int]time.Duration {
	if r.cursor == nil || len(r.cursor.Expired) == 0 {
		return nil
	}
	at := map[int]time.Duration{}
	for _, one := range r.cursor.Expired {
		ordinal := r.lane.upto(one.Seq)
		if e := r.lane.log[ordinal-1]; e.after != forever {
			at[ordinal] = e.after + r.lane.part.ExpireAfter
		}
	}
	return at
}

// swept reports whether sweeps may move cursors in the lane.
func (l *lane) swept() bool {
	return l.part != nil && l.unreadRetention()+l.part.ExpireAfter > 0
}

// mayMiss reports whether the reader may miss the message. It may miss:
//
// 1. a message that was deleted;
// 2. a message that is too old but kept as a dead letter of some group;
// 3. a message that was too old while a lease of another group held it.
func (r *reader) mayMiss(e *entry, options *Options) bool {
	if e.deleted != nil {
		return e.deleted.How == Asked || r.lane.unreadRetention() > 0
	}
	if r.lane.unreadRetention() == 0 {
		return false
	}
	for _, other := range r.lane.readers {
		if other.cursor != nil && other.dead()[e.seq] || other != r && other.heldAt(e, r.lane.skippableFrom(e), options) {
			return true
		}
	}
	return false
}

// heldAt reports whether a lease of the message may have been alive at an instant or later. In this case a sweep
// keeps the message but moves the other cursors past it. A later sweep deletes the message, possibly after the end of
// the run.
func (r *reader) heldAt(e *entry, at time.Duration, options *Options) bool {
	return slices.ContainsFunc(r.deliveries, func(d *delivery) bool {
		return slices.Contains(d.entries, e) && d.op.End+options.LeaseDuration >= at
	})
}

// deletions checks that each message missing in a log was deleted for a valid reason, and that a message is not in
// the log and not delivered after a successful deletion.
func deletions(x *index) []Violation {
	var found []Violation
	for _, l := range x.lanes {
		for _, e := range l.entries {
			if why := l.wrongDeletion(e); why != "" {
				found = append(found, l.at("deleted", e.push, fmt.Sprintf("%q at %d %s", e.transaction, e.seq, why)))
			}
			for _, op := range e.deletes {
				there := op.Outcome == history.Done && accepted(op, l, e)
				switch {
				case e.deleted != nil || e.rows == 0:
				case there:
					found = append(found, l.at("deleted", op, fmt.Sprintf(
						"the deletion of %q was answered with success, but the message is in the log at %d", e.transaction, e.seq)))
				case op.Outcome == history.Done && e.by < op.Begin:
					found = append(found, l.at("deleted", op, fmt.Sprintf(
						"the deletion of %q found nothing, but the message is in the log at %d", e.transaction, e.seq)))
				}
			}
		}
	}
	x.readers(func(r *reader) { found = append(found, r.deliveredAfterDelete()...) })
	return found
}

// accepted reports whether the answer to a deletion said that the message existed.
func accepted(op *history.Operation, l *lane, e *entry) bool {
	for _, item := range op.Items {
		if item.Partition == clientName(l.partition) && item.TransactionID == e.transaction && item.Accepted {
			return true
		}
	}
	return false
}

// wrongDeletion returns why the deletion of a message was wrong, or "" if it was right.
func (l *lane) wrongDeletion(e *entry) string {
	d := e.deleted
	if d == nil {
		return ""
	}
	old, done, wait := l.part.Retention, l.part.CompletedRetention, l.part.MaxWait
	switch d.How {
	case Asked:
		if len(e.deletes) == 0 {
			return "was deleted by its name, but no client requested it"
		}
	case Swept:
		switch {
		case d.Held:
			return "was deleted by a sweep while a lease held it"
		case old > 0 && d.Age >= old:
		case wait > 0 && d.Age >= wait && !d.Unread:
			return "was deleted by a sweep as waiting too long, but every group had passed it"
		case wait > 0 && d.Age >= wait:
		case done > 0 && d.Age >= done && d.Unread:
			return "was deleted by a sweep as completed, but some group had not passed it"
		case done > 0 && d.Age >= done:
		default:
			return fmt.Sprintf("was deleted by a sweep at the age of %s, but its queue keeps messages for %s, completed ones for %s, waiting ones for %s (0s: for ever)",
				d.Age, old, done, wait)
		}
	default:
		return "was deleted with its queue, but the queue exists"
	}
	return ""
}

// deliveredAfterDelete returns the deliveries of deleted messages by pops that claimed after the deletion.
func (r *reader) deliveredAfterDelete() []Violation {
	var found []Violation
	for _, d := range r.deliveries {
		for _, e := range d.entries {
			for _, op := range e.deletes {
				if op.Outcome == history.Done && accepted(op, r.lane, e) && op.End < d.after {
					found = append(found, r.at("deleted", d.op, fmt.Sprintf(
						"%q at %d was delivered, but operation %d had deleted it %s before this pop claimed",
						e.transaction, e.seq, op.ID, d.after-op.End)))
				}
			}
		}
	}
	return found
}

// expiries checks that each message that expired for a group was old enough.
func expiries(x *index) []Violation {
	var found []Violation
	x.readers(func(r *reader) {
		if r.cursor == nil {
			return
		}
		for _, one := range r.cursor.Expired {
			if after := r.lane.part.ExpireAfter; after == 0 || one.Age < after {
				found = append(found, r.at("expired", nil, fmt.Sprintf(
					"the message at %d expired at the age of %s, but its queue expires messages at the age of %s (0s: never)", one.Seq, one.Age, after)))
			}
		}
	})
	return found
}

// sweeps checks that the counters of the sweeps equal the recorded deletions and expiries.
func sweeps(x *index) []Violation {
	did := map[string]*Sweep{}
	var order []string
	of := func(queue string) *Sweep {
		if did[queue] == nil {
			did[queue] = &Sweep{Queue: queue}
			order = append(order, queue)
		}
		return did[queue]
	}
	for _, l := range x.lanes {
		for _, e := range l.log {
			if e.deleted != nil && e.deleted.How == Swept {
				s := of(l.queue)
				s.Retention++
				if l.part.MaxWait > 0 {
					s.Evicted++
				}
				if e.deleted.Unread {
					s.Unread++
				}
			}
		}
		for _, r := range l.readers {
			if r.cursor != nil && len(r.cursor.Expired) > 0 {
				of(l.queue).Expired += int64(len(r.cursor.Expired))
			}
		}
	}
	counted := map[string]Sweep{}
	for _, s := range x.state.Sweeps {
		counted[s.Queue] = s
		of(s.Queue)
	}
	var found []Violation
	for _, queue := range order {
		is, says := did[queue], counted[queue]
		for _, n := range []struct {
			what     string
			is, says int64
		}{
			{"deleted by sweeps", is.Retention, says.Retention + says.Completed + says.Evicted},
			{"deleted unread", is.Unread, says.Unread},
			{"deleted for waiting too long", is.Evicted, says.Evicted},
			{"expired unread", is.Expired, says.Expired},
		} {
			if n.is != n.says {
				found = append(found, Violation{Rule: "swept", Queue: queue, Message: fmt.Sprintf(
					"%d messages were %s, but the counters show %d", n.is, n.what, n.says)})
			}
		}
	}
	return found
}
