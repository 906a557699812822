package check_test

import (
	"testing"
	"time"

	"github.com/belfry-mq/belfry/test/chaos/check"
	"github.com/belfry-mq/belfry/test/chaos/history"
)

// together adds a transaction of unknown outcome (operation 12) that completes e and y. y is in another partition.
// Operation 11 delivered both messages. Operation 13 delivers y again, and 14 completes it.
func together(r *run) {
	other := func(items []history.Item) []history.Item {
		for i := range items {
			items[i].Partition = "p2"
		}
		return items
	}
	r.add(history.Operation{Kind: history.Push, Items: pushed("e")})
	r.add(history.Operation{Kind: history.Push, Items: other(pushed("y"))})
	r.add(history.Operation{Kind: history.Pop, LeaseID: "L4", Items: append(delivered("e"), other(delivered("y"))...)})
	r.add(history.Operation{
		Kind: history.Ack, LeaseID: "L4", Outcome: history.Unknown, Transaction: "T",
		Items: append(acked("completed", "e"), other(acked("completed", "y"))...),
	})
	r.add(history.Operation{Kind: history.Pop, LeaseID: "L5", Items: other(delivered("y"))})
	r.add(history.Operation{Kind: history.Ack, LeaseID: "L5", Items: other(acked("completed", "y"))})
	r.part().Log, r.part().LastSeq = logOf("a", "b", "c", "d", "e"), 5
	r.cursor().Committed, r.cursor().Consumed = 5, 5
	r.state.Partitions = append(r.state.Partitions, check.Partition{
		Queue: "q", Name: "p2", LastSeq: 1, Log: logOf("y"),
		Cursors: []check.Cursor{{Group: "g", FromStart: true, Committed: 1, Consumed: 1}},
	})
}

func TestAcksOfATransactionTakeEffectTogether(t *testing.T) {
	t.Parallel()
	runBreaches(t, []breach{
		{
			"only one ack takes effect", "atomic skipped", `transaction T: it was not applied, but the cursor passed "e" at 5`, 0, together,
			func(r *run) { r.op(13).Begin = r.op(12).Begin - 500*time.Millisecond },
		},
		{
			"one ack takes effect although the transaction was refused", "atomic skipped", `transaction T: it was not applied, but the cursor passed "e" at 5`, 0,
			func(r *run) {
				together(r)
				r.op(12).Outcome = history.Refused
				for i := range r.op(12).Items {
					r.op(12).Items[i].Accepted = false
				}
			},
			func(r *run) {
				again := *r.op(12)
				again.ID, again.Outcome = 15, history.Done
				again.Items = acked("completed", "e")
				r.operations = append(r.operations, again)
				r.operations[14].Transaction, r.operations[14].Begin, r.operations[14].End = "", 23100*time.Millisecond, 23200*time.Millisecond
			},
		},
		{
			"a completed message is delivered again", "again atomic", `"y" at 1 was delivered, but the message at 1 was completed by operation 12`, 13,
			after(together, func(r *run) { r.op(12).Outcome = history.Done }),
			func(r *run) { r.op(13).Begin = r.op(12).Begin },
		},
	})
}
