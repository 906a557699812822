package check

import (
	"fmt"

	"github.com/belfry-mq/belfry/test/chaos/history"
)

// stored: a message answered with success is in the log once, a refused one is not, and one of unknown outcome is at
// most once.
func stored(x *index) []Violation {
	var found []Violation
	for _, l := range x.lanes {
		for _, e := range l.entries {
			switch {
			case e.push == nil || e.erased:
			case e.rows == 0 && e.done > 0:
				found = append(found, l.at("stored", e.push, fmt.Sprintf(
					"the push of %q was answered with success, but it is not in the log", e.transaction)))
			case e.rows > 1:
				found = append(found, l.at("stored", e.push, fmt.Sprintf(
					"%q is in the log %d times, it must be there once", e.transaction, e.rows)))
			case e.rows > 0 && e.done+e.unknown == 0:
				found = append(found, l.at("stored", e.push, fmt.Sprintf(
					"the push of %q was refused, but it is in the log at %d", e.transaction, e.seq)))
			}
		}
	}
	return found
}

// dedup: a transaction id of a lane has one message id everywhere, a message id has one transaction id, and at most one
// push was answered that the message is new.
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
					"%q was answered to be message %s here, elsewhere it is %s", e.transaction, e.conflictWith, e.message)))
			case e.again != nil:
				found = append(found, l.at("dedup", e.again, fmt.Sprintf(
					"the push of %q was answered that it is new, as operation %d was before", e.transaction, e.freshPush.ID)))
			case e.duplicate > 0 && e.fresh == 0 && e.unknown == 0:
				found = append(found, l.at("dedup", e.push, fmt.Sprintf(
					"the push of %q was answered that it is a duplicate, but no other push can have stored it", e.transaction)))
			}
		}
	}
	return found
}

// witness returns an operation that shows an entry. nil: only the tables show it.
func (e *entry) witness() *history.Operation {
	if e.push != nil {
		return e.push
	}
	return e.delivery
}

// unpushed: each stored or delivered message was pushed. Unknown ids are allowed as often as pushes without an id are
// of unknown outcome.
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

// pushOrder: a message stored before the push of another message began stands before it. So does an earlier item of the
// same push. Between two pushes by SQL, it is enough that the first was committed before the second began.
func pushOrder(x *index) []Violation {
	var found []Violation
	for _, l := range x.lanes {
		// soonest is, of the later messages, the one stored first.
		var soonest, committed *entry
		for i := len(l.log) - 1; i >= 0; i-- {
			e := l.log[i]
			if soonest != nil && e.push != nil && e.after != forever && e.after > soonest.by {
				found = append(found, l.at("push-order", e.push, fmt.Sprintf(
					"%q was stored at %d, before %q at %d, which was answered %s before this push began",
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
					"%q was stored at %d, before %q at %d, which was committed by SQL %s before this push by SQL began",
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
						"%q was pushed behind %q but stored at %d, before it at %d", e.transaction, last.transaction, e.seq, last.seq)))
				}
				last = e
			}
		}
	}
	return found
}

// delivered: every message of the log reached every group, and at the end no cursor is before the end of its log.
func delivered(x *index) []Violation {
	var found []Violation
	for _, l := range x.lanes {
		if l.part == nil {
			continue
		}
		if n := len(l.part.Log); n > 0 && len(l.part.Cursors) == 0 && l.part.MaxWait > 0 && !x.options.Undrained {
			found = append(found, l.at("leftover", nil, fmt.Sprintf(
				"after the drain %d messages are left without a reader, though its queue has messages wait for %s", n, l.part.MaxWait)))
		}
		for i := range l.part.Cursors {
			c := &l.part.Cursors[i]
			if c.Missing {
				if len(l.log) > 0 {
					v := l.at("delivered", l.log[0].push, fmt.Sprintf(
						"group %q reads the whole queue, but has no cursor in this partition, so it never gets its %d messages", c.Group, len(l.log)))
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
	// An autoAck pop with a lost answer took at most one run of messages. It left out the dead letters between them.
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
		message := fmt.Sprintf("%q at %d is behind the cursor, at %d, but was never delivered: the group lost it",
			e.transaction, e.seq, r.cursor.Committed)
		if ended {
			message += fmt.Sprintf(" in %s", r.gen)
		}
		if beyond {
			message = fmt.Sprintf("%q at %d was never delivered: it still waits beyond the cursor, at %d, after the drain",
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
