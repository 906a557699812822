package check

import (
	"fmt"

	"github.com/belfry-mq/belfry/test/chaos/history"
)

// erasures checks that each message stored before the deletion of its queue is gone and is not delivered afterwards.
// No other message may be gone.
func erasures(x *index) []Violation {
	var found []Violation
	for _, g := range x.groups {
		if g.group != "" || len(g.resets) == 0 {
			continue
		}
		for _, l := range x.lanes {
			if l.queue == g.queue {
				found = append(found, l.erasures(g.resets)...)
			}
		}
	}
	for _, l := range x.lanes {
		for _, e := range l.entries {
			if g := x.groupByName[groupName{l.queue, ""}]; e.erased && (g == nil || !g.mayErase(e)) {
				found = append(found, l.at("erased", e.push, fmt.Sprintf(
					"%q was deleted with its queue, but no deletion of the queue ended after %s, when the message was pushed", e.transaction, e.after)))
			}
		}
	}
	return append(found, x.deliveredAfterErase()...)
}

// mayErase reports whether a deletion of the queue may have happened after the push of a message.
func (g *group) mayErase(e *entry) bool {
	for _, op := range g.resets {
		if op.Outcome == history.Unknown || op.End > e.after {
			return true
		}
	}
	return false
}

// erasures returns a violation for each message that the deletion of its queue should have deleted.
func (l *lane) erasures(deletes []*history.Operation) []Violation {
	var found []Violation
	for _, e := range l.log {
		for _, op := range deletes {
			if op.Outcome == history.Done && e.by < op.Begin {
				found = append(found, l.at("erased", op, fmt.Sprintf(
					"%q is in the log at %d, but it was stored %s before this deletion of its queue began", e.transaction, e.seq, op.Begin-e.by)))
				break
			}
		}
	}
	return found
}

// deliveredAfterErase finds deliveries of messages of a deleted queue, by pops that began after the deletion ended.
func (x *index) deliveredAfterErase() []Violation {
	var found []Violation
	for _, op := range x.order {
		g := x.groupByName[groupName{op.Queue, ""}]
		if op.Kind != history.Pop || g == nil {
			continue
		}
		for _, item := range op.Items {
			if !x.erased[Erased{op.Queue, item.Partition, item.TransactionID}] {
				continue
			}
			l := x.lane(op.Queue, item.Partition)
			e := l.entry(item.TransactionID)
			for _, gone := range g.resets {
				if gone.Outcome == history.Done && e.by < gone.Begin && op.Begin > gone.End {
					v := l.at("erased", op, fmt.Sprintf("%q was delivered, but operation %d had deleted its queue %s before this pop began",
						e.transaction, gone.ID, op.Begin-gone.End))
					v.Group = op.Group
					found = append(found, v)
				}
			}
		}
	}
	return found
}
