package check

import (
	"fmt"

	"github.com/belfry-mq/belfry/test/chaos/history"
)

// stored checks the log: it has each message answered with success once, no refused message, and each message of
// unknown outcome at most once.
func stored(x *index) []Violation {
	var found []Violation
	for _, l := range x.lanes {
		for _, e := range l.entries {
			switch {
			case e.push == nil || e.erased:
			case e.rows == 0 && e.done > 0:
				found = append(found, l.at("stored", e.push, fmt.Sprintf(
					"the push of %q was answered with success, but the message is not in the log", e.transaction)))
			case e.rows > 1:
				found = append(found, l.at("stored", e.push, fmt.Sprintf(
					"%q is in the log %d times instead of once", e.transaction, e.rows)))
			case e.rows > 0 && e.done+e.unknown == 0:
				found = append(found, l.at("stored", e.push, fmt.Sprintf(
					"the push of %q was refused, but the message is in the log at %d", e.transaction, e.seq)))
			}
		}
	}
	return found
}

// dedup checks ids: a transaction id of a lane has only one message id, a message id has only one transaction id, and
// at most one push was answered that the message is new.
func dedup(x *index) []Violation {
	var found []Violation
	type owned struct {
		*entry
		lane *lane
	}
	owner := map[string]owned{}
	for _, l := range x.lanes {
		for _, e := range l.entries {
			if other := owner[e.message]; e.message != "" && other.entry != nil {
				v := l.at("dedup", e.witness(), fmt.Sprintf(
					"%q and %q have the same message id %s", other.transaction, e.transaction, e.message))
				if other.lane != l {
					v.Partition = ""
				}
				if other.lane.queue != l.queue {
					v.Queue = ""
				}
				found = append(found, v)
			}
			owner[e.message] = owned{e, l}
			switch {
			case e.conflict != nil:
				found = append(found, l.at("dedup", e.conflict, fmt.Sprintf(
					"the answer gave %q the message id %s, but the log or another answer has %s", e.transaction, e.conflictWith, e.message)))
			case e.again != nil:
				found = append(found, l.at("dedup", e.again, fmt.Sprintf(
					"the push of %q was answered as new, but operation %d was answered as new before", e.transaction, e.freshPush.ID)))
			case e.duplicate > 0 && e.fresh == 0 && e.unknown == 0:
				found = append(found, l.at("dedup", e.push, fmt.Sprintf(
					"the push of %q was answered as a duplicate, but no other push can have stored the message", e.transaction)))
			}
		}
	}
	return found
}

// witness returns an operation that shows an entry. It returns nil if only the tables show the entry.
func (e *entry) witness() *history.Operation {
	if e.push != nil {
		return e.push
	}
	return e.delivery
}

// unpushed checks that each stored or delivered message was pushed. For each push of unknown outcome without an id,
// it allows one unknown id.
func unpushed(x *index) []Violation {
	var found []Violation
	for _, l := range x.lanes {
		strangers := 0
		for _, e := range l.entries {
			switch {
			case e.erased || e.push != nil && (e.rows > 0 || e.delivery == nil):
			case e.rows == 0 && e.delivery != nil:
				found = append(found, l.at("unpushed", e.delivery, fmt.Sprintf(
					"%q was delivered, but it is not in the log", e.transaction)))
			case e.rows > 0:
				if strangers++; strangers > l.nameless {
					found = append(found, l.at("unpushed", e.delivery, fmt.Sprintf(
						"%q is in the log at %d, but no client pushed it (%d pushes without an id are of unknown outcome)",
						e.transaction, e.seq, l.nameless)))
				}
			}
		}
	}
	return found
}

// pushOrder checks the order of the log. A message that was stored before the push of another message began precedes
// that message. An earlier item of the same push also precedes a later item. For two pushes by SQL, the first
// precedes the second if it was committed before the second began.
func pushOrder(x *index) []Violation {
	var found []Violation
	for _, l := range x.lanes {
		// The loop goes from the end of the log to its start. Of the messages so far, soonest is the one that was
		// certainly stored at the earliest time, and committed is the one whose SQL push was committed first.
		var soonest, committed *entry
		for i := len(l.log) - 1; i >= 0; i-- {
			e := l.log[i]
			if soonest != nil && e.push != nil && e.after != forever && e.after > soonest.by {
				found = append(found, l.at("push-order", e.push, fmt.Sprintf(
					"%q is stored at %d, before %q at %d, but the push of the latter was answered %s before this push began",
					e.transaction, e.seq, soonest.transaction, soonest.seq, e.after-soonest.by)))
			}
			if soonest == nil || e.by < soonest.by {
				soonest = e
			}
			if e.committed == forever {
				continue
			}
			if committed != nil && e.after > committed.committed {
				found = append(found, l.at("push-order", e.push, fmt.Sprintf(
					"%q is stored at %d, before %q at %d, but the SQL push of the latter was committed %s before this SQL push began",
					e.transaction, e.seq, committed.transaction, committed.seq, e.after-committed.committed)))
			}
			if committed == nil || e.committed < committed.committed {
				committed = e
			}
		}
		for _, push := range l.pushes {
			var last *entry
			for _, item := range push.items {
				e := l.byID[item.TransactionID]
				if e.ordinal == 0 || item.Duplicate {
					continue
				}
				if last != nil && e.ordinal < last.ordinal {
					found = append(found, l.at("push-order", push.op, fmt.Sprintf(
						"%q was pushed after %q, but it is stored at %d, before the latter at %d", e.transaction, last.transaction, e.seq, last.seq)))
				}
				last = e
			}
		}
	}
	return found
}

// delivered checks that every message of the log reached every group, and that at the end every cursor is at the end
// of its log.
func delivered(x *index) []Violation {
	var found []Violation
	for _, l := range x.lanes {
		if l.part == nil {
			continue
		}
		if n := len(l.part.Log); n > 0 && len(l.part.Cursors) == 0 && l.part.MaxWait > 0 && !x.options.Undrained {
			found = append(found, l.at("leftover", nil, fmt.Sprintf(
				"after the drain %d messages are left in a partition without groups, although maxWaitTimeSeconds of the queue is %s", n, l.part.MaxWait)))
		}
		for i := range l.part.Cursors {
			c := &l.part.Cursors[i]
			if c.Missing {
				if len(l.log) > 0 {
					v := l.at("delivered", l.log[0].push, fmt.Sprintf(
						"group %q reads the whole queue, but has no cursor in this partition, so it never receives the %d messages", c.Group, len(l.log)))
					v.Group = c.Group
					found = append(found, v)
				}
				continue
			}
			lives := l.generations[c.Group]
			if lives == nil {
				lives = []*reader{l.readerByGroup[c.Group]}
			}
			for _, r := range lives {
				if r.cursor != nil {
					found = append(found, r.delivered(&x.options)...)
				}
			}
		}
	}
	return found
}

func (r *reader) delivered(options *Options) []Violation {
	var found []Violation
	got := make([]bool, len(r.lane.log)+1)
	first := len(r.lane.log)
	for _, d := range r.deliveries {
		for _, e := range d.entries {
			got[e.ordinal] = true
			if e.ordinal > 0 {
				first = min(first, e.ordinal-1)
			}
		}
	}
	if at, ok := r.start(); ok {
		first = at
	}
	dead := r.dead()
	ended := r.gen != nil && !r.gen.last
	left := 0
	// An autoAck pop with a lost answer consumed at most one sequence of messages, without the dead letters in it.
	excuses, excused := len(r.lostAutoAcks())+len(r.repeatedAutoAcks()), false
	for _, e := range r.lane.log[first:] {
		if e.seq > r.cursor.Committed && !dead[e.seq] && e.deleted == nil {
			left++
		}
		if got[e.ordinal] || dead[e.seq] || r.mayMiss(e, options) {
			excused = excused && !got[e.ordinal]
			continue
		}
		beyond := e.seq > r.cursor.Committed
		if beyond && (ended || options.Undrained) {
			continue
		}
		if !beyond && (excused || excuses > 0) {
			if !excused {
				excuses--
			}
			excused = true
			continue
		}
		message := fmt.Sprintf("%q at %d is before the cursor, at %d, but was never delivered",
			e.transaction, e.seq, r.cursor.Committed)
		if ended {
			message += fmt.Sprintf(" in %s", r.gen)
		}
		if beyond {
			message = fmt.Sprintf("%q at %d was never delivered: it is after the cursor, at %d, after the drain",
				e.transaction, e.seq, r.cursor.Committed)
		}
		found = append(found, r.at("delivered", e.push, message))
	}
	if n := len(r.cursor.Redriven); n > 0 && !ended && !options.Undrained {
		found = append(found, r.at("leftover", nil, fmt.Sprintf("after the drain %d redriven messages are left", n)))
	}
	if left > 0 && !ended && !options.Undrained {
		found = append(found, r.at("leftover", nil, fmt.Sprintf(
			"after the drain %d messages are left: the cursor is at %d, the log ends at %d", left, r.cursor.Committed, r.lane.part.LastSeq)))
	}
	return found
}
