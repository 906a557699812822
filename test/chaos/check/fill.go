package check

import (
	"slices"
	"time"

	"github.com/belfry-mq/belfry/test/chaos/history"
)

func (x *index) addPush(op *history.Operation) {
	x.byLane(op, func(l *lane, items []*history.Item) {
		if op.Outcome == history.Done {
			l.pushes = append(l.pushes, itemsOf{op, items})
		}
		for _, item := range items {
			if item.TransactionID == "" && op.Outcome != history.Done {
				if op.Outcome == history.Unknown {
					l.nameless++
				}
				continue
			}
			e := l.entry(item.TransactionID)
			e.erased = x.erased[Erased{l.queue, l.partition, item.TransactionID}]
			e.pushed(op, item)
			if op.Transaction != "" {
				x.transaction(op).push(l, e)
			}
		}
	})
}

func (e *entry) pushed(op *history.Operation, item *history.Item) {
	if e.push == nil || e.done == 0 && op.Outcome == history.Done {
		e.push = op
	}
	if op.Outcome != history.Refused {
		if e.done+e.unknown == 0 {
			e.delay = item.Delay
		}
		e.delay, e.longest = min(e.delay, item.Delay), max(e.longest, item.Delay)
	}
	switch op.Outcome {
	case history.Refused:
		e.refused++
		return
	case history.Unknown:
		e.unknown++
		if e.freshPush == nil {
			e.after = min(e.after, op.Begin)
		}
		return
	case history.Done:
	}
	e.done++
	if op.Inbox {
		// The sequencer stores the message later. If another client pushed the same id, either push may have stored
		// the message.
		e.unknown++
		e.after, e.committed = min(e.after, op.Begin), min(e.committed, op.End)
		return
	}
	e.by = min(e.by, op.End)
	if e.freshPush == nil {
		e.after = min(e.after, op.Begin)
	}
	e.noteMessageID(op, item.MessageID)
	if op.Transaction != "" {
		return // an earlier attempt of the transaction may have stored the message
	}
	if item.Duplicate {
		e.duplicate++
		return
	}
	e.fresh++
	switch {
	case e.freshPush == nil:
		// This push stored the message, so no earlier attempt stored it.
		e.freshPush, e.after = op, op.Begin
	case e.again == nil:
		e.again = op
	}
}

// noteMessageID records the message id in the answer to an operation.
func (e *entry) noteMessageID(op *history.Operation, message string) {
	switch {
	case message == "":
	case e.message == "":
		e.message = message
	case e.message != message && e.conflict == nil:
		e.conflict, e.conflictWith = op, message
	}
}

// add indexes an operation that is not a push.
func (x *index) add(op *history.Operation) {
	if op.Kind == history.Ack && x.transacted[op.Transaction] != nil && !x.mayHaveApplied(x.transacted[op.Transaction]) {
		x.noteUnapplied(op)
		return
	}
	if op.Kind == history.Push || op.Outcome == history.Refused {
		return
	}
	switch op.Kind {
	case history.Push, history.Rewound:
	case history.Pop:
		x.addPop(op)
	case history.Await:
		g := x.group(op.Queue, op.Group)
		g.empty = append(g.empty, op)
	case history.Ack:
		x.byLane(op, func(l *lane, items []*history.Item) {
			r := x.readerOf(l, op)
			if r == nil {
				return // the ack cannot have been accepted
			}
			for _, item := range items {
				e := l.byID[item.TransactionID]
				if e != nil && e.ordinal > 0 && (item.Accepted || op.Outcome == history.Unknown) {
					r.acks = append(r.acks, &ack{op: op, item: item, entry: e})
				}
			}
		})
	case history.Extend:
		x.possibleExtends[op.LeaseID] = append(x.possibleExtends[op.LeaseID], op)
		if op.Outcome == history.Done {
			x.extends[op.LeaseID] = append(x.extends[op.LeaseID], op)
		}
	case history.Seek, history.DeleteGroup:
		g := x.group(op.Queue, op.Group)
		g.resets = append(g.resets, op)
	case history.DeleteMessage:
		x.byLane(op, func(l *lane, items []*history.Item) {
			for _, item := range items {
				e := l.entry(item.TransactionID)
				e.deletes = append(e.deletes, op)
			}
		})
	case history.DeleteQueue:
		g := x.group(op.Queue, "") // no group has the empty name
		g.resets = append(g.resets, op)
	case history.Redrive:
		g := x.group(op.Queue, op.Group)
		g.redrives = append(g.redrives, op)
	}
}

func (x *index) addPop(op *history.Operation) {
	g := x.group(op.Queue, op.Group)
	if op.Outcome == history.Done && op.AutoAck && x.options.brokeConnectionsDuring(op) {
		g.repeatedAutoAcks = append(g.repeatedAutoAcks, op)
	}
	switch {
	case op.Outcome == history.Unknown && op.AutoAck:
		g.lostAutoAcks = append(g.lostAutoAcks, op)
	case op.Outcome == history.Unknown:
		g.unknown = append(g.unknown, op)
	case len(op.Items) == 0:
		if op.Wait > 0 {
			g.empty = append(g.empty, op)
		}
	default:
		if op.LeaseID != "" {
			x.owners[op.LeaseID] = append(x.owners[op.LeaseID], op)
		}
		x.byLane(op, func(l *lane, items []*history.Item) {
			d := &delivery{op: op, after: op.Begin}
			for _, item := range items {
				e := l.entry(item.TransactionID)
				e.noteMessageID(op, item.MessageID)
				e.by = min(e.by, op.End)
				if e.delivery == nil {
					e.delivery = op
				}
				if e.after != forever {
					d.after = max(d.after, min(e.after, op.End))
				}
				d.entries = append(d.entries, e)
			}
			if r := x.readerOf(l, op); r != nil {
				r.deliveries = append(r.deliveries, d)
			}
		})
	}
}

// concerns reports whether an operation concerns the lane. An operation without a partition concerns all lanes.
func (l *lane) concerns(op *history.Operation) bool {
	return op.Partition == "" || op.Partition == clientName(l.partition)
}

// redriven reports whether dead letters may have been redriven between two instants.
func (r *reader) redriven(from, to time.Duration) bool {
	return slices.ContainsFunc(r.group.redrives, func(op *history.Operation) bool {
		return r.lane.concerns(op) && op.Begin < to && (op.Outcome == history.Unknown || op.End > from)
	})
}

// lostAutoAcks returns the autoAck pops of unknown outcome that may have consumed messages of the lane.
func (r *reader) lostAutoAcks() []*history.Operation { return r.lane.concerned(r.group.lostAutoAcks) }

// repeatedAutoAcks returns the answered autoAck pops that may have consumed more messages of the lane than they
// delivered.
func (r *reader) repeatedAutoAcks() []*history.Operation {
	return r.lane.concerned(r.group.repeatedAutoAcks)
}

func (l *lane) concerned(ops []*history.Operation) []*history.Operation {
	var some []*history.Operation
	for _, op := range ops {
		if l.concerns(op) {
			some = append(some, op)
		}
	}
	return some
}
