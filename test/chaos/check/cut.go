package check

import (
	"slices"

	"github.com/belfry-mq/belfry/test/chaos/history"
)

// Cut returns the operations that concern a violation. Each operation has only its items in the partition of the
// violation. Cut does not change its argument. These rules apply:
//
//   - An operation without items stays if it may concern the partition: an empty pop of the queue, a pop of unknown
//     outcome, a seek, or an extend of a lease of the partition.
//   - If the violation names a group, only pushes, deletions and the operations of that group stay.
//   - If it names a transaction, all operations of the transaction and of its queue stay. An operation in another
//     partition or group may show whether the transaction was applied.
//   - Promotions stay.
//   - If it names no partition, the operations of all partitions stay. If it names no queue, the operations of all
//     queues stay.
func Cut(operations []history.Operation, v Violation) []history.Operation {
	v = v.widened()
	given := map[string]bool{}
	for i := range operations {
		o := &operations[i]
		if o.Kind == history.Pop && o.LeaseID != "" && v.about(o.Queue) && slices.ContainsFunc(o.Items, v.in) {
			given[o.LeaseID] = true
		}
	}
	var cut []history.Operation
	for _, o := range operations {
		switch {
		case o.Kind == history.Rewound:
			cut = append(cut, o)
			continue
		case v.Transaction != "" && o.Transaction == v.Transaction:
			cut = append(cut, o)
			continue
		case o.Kind == history.Extend && !given[o.LeaseID]:
			continue
		case o.Kind != history.Extend && !v.about(o.Queue):
			continue
		case !shared(o.Kind) && o.Kind != history.Extend && v.Group != "" && o.Group != v.Group:
			continue
		case v.Partition != "" && o.Partition != "" && o.Partition != clientName(v.Partition):
			continue
		}
		items := slices.DeleteFunc(slices.Clone(o.Items), func(item history.Item) bool { return !v.in(item) })
		if len(o.Items) > 0 && len(items) == 0 {
			continue
		}
		o.Items = items
		cut = append(cut, o)
	}
	return cut
}

// CutState returns the part of a state that belongs to the operations that Cut returns.
func CutState(state State, v Violation) State {
	v = v.widened()
	there := func(queue, partition, group string) bool {
		return v.about(queue) && (v.Partition == "" || clientName(partition) == clientName(v.Partition)) && (v.Group == "" || group == v.Group)
	}
	var cut State
	for _, p := range state.Partitions {
		if !v.about(p.Queue) || v.Partition != "" && clientName(p.Name) != clientName(v.Partition) {
			continue
		}
		p.Cursors = slices.DeleteFunc(slices.Clone(p.Cursors), func(c Cursor) bool { return v.Group != "" && c.Group != v.Group })
		cut.Partitions = append(cut.Partitions, p)
	}
	for _, m := range state.Moves {
		if there(m.Queue, m.Partition, m.Group) {
			cut.Moves = append(cut.Moves, m)
		}
	}
	for _, e := range state.Erased {
		if v.about(e.Queue) && (v.Partition == "" || e.Partition == clientName(v.Partition)) {
			cut.Erased = append(cut.Erased, e)
		}
	}
	for _, s := range state.Sweeps {
		if v.about(s.Queue) {
			cut.Sweeps = append(cut.Sweeps, s)
		}
	}
	for _, one := range state.Redelivered {
		if there(one.Queue, one.Partition, one.Group) {
			cut.Redelivered = append(cut.Redelivered, one)
		}
	}
	for _, s := range state.Samples {
		if there(s.Queue, s.Partition, s.Group) {
			cut.Samples = append(cut.Samples, s)
		}
	}
	for _, t := range state.LeasePeriods {
		if there(t.Queue, t.Partition, t.Group) {
			cut.LeasePeriods = append(cut.LeasePeriods, t)
		}
	}
	return cut
}

// shared reports whether an operation of this kind acts on all groups.
func shared(kind history.Kind) bool {
	return kind == history.Push || kind == history.DeleteMessage || kind == history.DeleteQueue
}

// widened returns the violation. If it names a transaction, the result has no partition and no group.
func (v Violation) widened() Violation {
	if v.Transaction != "" {
		v.Partition, v.Group = "", ""
	}
	return v
}

// about reports whether the violation concerns a queue.
func (v Violation) about(queue string) bool { return v.Queue == "" || v.Queue == queue }

// in reports whether an item is in the partition of the violation.
func (v Violation) in(item history.Item) bool {
	return v.Partition == "" || item.Partition == clientName(v.Partition)
}
