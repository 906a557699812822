package check

import (
	"slices"

	"github.com/belfry-mq/belfry/test/chaos/history"
)

// withoutRewound returns the operations without the deliveries that a promotion lost, and the promotions. It removes
// the samples read during promotions from state. It does not change operations.
func withoutRewound(operations []history.Operation, state *State) (kept []history.Operation, rewinds []*history.Operation) {
	for i := range operations {
		if operations[i].Kind == history.Rewound {
			rewinds = append(rewinds, &operations[i])
		}
	}
	if len(rewinds) == 0 {
		return operations, nil
	}
	during := func(op *history.Operation) bool {
		return slices.ContainsFunc(rewinds, func(r *history.Operation) bool { return op.Begin <= r.End && op.End >= r.Begin })
	}
	safe := map[string]bool{} // leases in the tables, and leases under which an operation was accepted
	for _, t := range state.LeasePeriods {
		safe[t.LeaseID] = true
	}
	for i := range operations {
		op := &operations[i]
		accepted := op.Kind == history.Extend || op.Kind == history.Ack && slices.ContainsFunc(op.Items, func(item history.Item) bool { return item.Accepted })
		if accepted && op.Outcome == history.Done {
			safe[op.LeaseID] = true
		}
	}
	kept = slices.DeleteFunc(slices.Clone(operations), func(op history.Operation) bool {
		return op.Kind == history.Rewound || op.Kind == history.Pop && op.LeaseID != "" && !safe[op.LeaseID] && during(&op)
	})
	state.Samples = slices.DeleteFunc(slices.Clone(state.Samples), func(s Sample) bool {
		return during(&history.Operation{Begin: s.At, End: s.At})
	})
	return kept, rewinds
}
