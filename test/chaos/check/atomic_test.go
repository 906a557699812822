package check_test

import (
	"testing"
	"time"

	"github.com/belfry-mq/belfry/test/chaos/check"
	"github.com/belfry-mq/belfry/test/chaos/history"
)

// handOn joins the ack of a and b and a push of x and y into one transaction. x and y are in another partition, which
// has no readers.
func handOn(r *run) {
	r.op(4).Transaction = "T"
	items := pushed("x", "y")
	for i := range items {
		items[i].Partition = "next"
	}
	o := r.add(history.Operation{Kind: history.Push, Transaction: "T", Items: items})
	o.Begin, o.End = r.op(4).Begin, r.op(4).End
	r.state.Partitions = append(r.state.Partitions, check.Partition{Queue: "q", Name: "next", LastSeq: 2, Log: logOf("x", "y")})
}

// unanswered sets the outcome of the push and the ack of the transaction.
func unanswered(r *run, outcome history.Outcome) {
	r.op(4).Outcome, r.op(9).Outcome = outcome, outcome
	for i := range r.op(4).Items {
		r.op(4).Items[i].Accepted = outcome == history.Done
	}
}

// next sets the log of the partition with x and y.
func (r *run) next(ids ...string) {
	r.state.Partitions[1].Log, r.state.Partitions[1].LastSeq = logOf(ids...), int64(len(ids))
}

func TestTransactionsAreAtomic(t *testing.T) {
	t.Parallel()
	runBreaches(t, []breach{
		{
			"only one of two pushes is stored", "atomic", `transaction T: "y" is not in the log, but "x" of the same transaction is at 1`, 9,
			func(r *run) {
				handOn(r)
				unanswered(r, history.Unknown)
				r.next("x")
			},
			func(r *run) { r.next("x", "y") },
		},
		{
			"applied without its pushes", "atomic stored", `transaction T: it was applied, but "x" is not in the log`, 9,
			after(handOn, func(r *run) { r.next() }),
			func(r *run) { r.next("x", "y") },
		},
		{
			"refused but stored", "atomic stored skipped", `transaction T: it was refused, but "x" is in the log at 1`, 9,
			after(handOn, func(r *run) { unanswered(r, history.Refused) }),
			func(r *run) { unanswered(r, history.Unknown) },
		},
		{
			"its pushes are not stored, but its acks took effect", "atomic skipped",
			`transaction T: none of its pushes is in the log, but the cursor passed "a" at 1`, 5,
			func(r *run) {
				handOn(r)
				unanswered(r, history.Unknown)
				r.next()
			},
			func(r *run) { r.next("x", "y") },
		},
		{
			"refused, but its acks took effect", "atomic skipped", `none of its pushes is in the log, but the cursor passed "a" at 1`, 5,
			func(r *run) {
				handOn(r)
				unanswered(r, history.Refused)
				r.next()
			},
			func(r *run) {
				// Another ack completed the messages.
				o := r.add(history.Operation{Kind: history.Ack, LeaseID: "L1", Items: acked("completed", "a", "b")})
				o.Begin, o.End = r.op(4).Begin, r.op(4).End
			},
		},
		{
			"refused, but the final cursor passed its messages", "atomic skipped", `none of its pushes is in the log, but the cursor passed "a" at 1`, 0,
			func(r *run) {
				handOn(r)
				unanswered(r, history.Refused)
				r.next()
				for _, id := range []int64{5, 6, 7, 8} {
					r.drop(id)
				}
				r.part().Log, r.part().LastSeq = logOf("a", "b"), 2
				r.op(1).Items = pushed("a", "b")
				r.op(2).Items = nil
				r.cursor().Committed, r.cursor().Consumed, r.cursor().Dead = 2, 2, nil
			},
			func(r *run) {
				r.next("x", "y")
				for i := range r.operations {
					if o := &r.operations[i]; o.Transaction != "" {
						o.Outcome = history.Unknown
					}
				}
			},
		},
		{
			"stored, but its acknowledged messages are delivered again", "atomic again", `transaction T: it was applied and acknowledged all messages up to "a" at 1`, 11,
			func(r *run) {
				handOn(r)
				unanswered(r, history.Unknown)
				// The delivery of x proves that the transaction was applied.
				r.state.Partitions[1].Cursors = []check.Cursor{{Group: "h", FromStart: true, Committed: 2, Consumed: 2}}
				items := pushed("x", "y")
				items[0].Partition, items[1].Partition = "next", "next"
				r.add(history.Operation{Kind: history.Pop, AutoAck: true, Items: items}).Group = "h"
				r.add(history.Operation{Kind: history.Pop, LeaseID: "L4", Items: delivered("a")})
			},
			func(r *run) { r.op(11).Begin = 8500 * time.Millisecond },
		},
	})
}

// A repeated transaction proves neither that its lease is alive nor that its messages are new.
func TestRepeatedTransactionsGetTheSameAnswer(t *testing.T) {
	t.Parallel()
	again := func(r *run) {
		handOn(r)
		for _, id := range []int{4, 9} {
			o := *r.op(id)
			o.ID, o.Begin, o.End = int64(len(r.operations)+1), 15*time.Second, 16*time.Second
			r.operations = append(r.operations, o)
		}
	}
	runBreaches(t, []breach{
		{
			"the answer to the repetition has another message id", "dedup", `the answer gave "x" the message id m-z`, 11,
			func(r *run) {
				again(r)
				items := pushed("x", "y")
				items[0].Partition, items[1].Partition, items[0].MessageID = "next", "next", "m-z"
				r.op(11).Items = items
			},
			func(r *run) { r.op(11).Items = r.op(9).Items },
		},
		{
			"an ack outside the transaction is fenced", "lease", "accepted under lease L1", 10,
			after(again, func(r *run) { r.op(10).Transaction = "" }),
			func(r *run) { r.op(10).Transaction = "T" },
		},
	})
}
