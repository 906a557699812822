package check_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/chaos/check"
	"github.com/belfry-mq/belfry/test/chaos/history"
)

// again pushes, delivers and completes ids after all other operations, and adds them to the end of the log.
func (r *run) again(ids ...string) {
	for _, id := range ids {
		r.add(history.Operation{Kind: history.Push, Items: pushed(id)})
		p := r.part()
		p.LastSeq++
		p.Log = append(p.Log, check.Message{Seq: p.LastSeq, MessageID: "m-" + id, TransactionID: id})
	}
	r.add(history.Operation{Kind: history.Pop, LeaseID: "new", Items: delivered(ids...)})
	r.add(history.Operation{Kind: history.Ack, LeaseID: "new", Items: acked("completed", ids...)})
	r.cursor().Committed, r.cursor().Consumed = r.part().LastSeq, r.part().LastSeq
}

// lose adds a push of unknown outcome and the delivery of its items under the lease "lost".
func (r *run) lose(items []history.Item) {
	r.add(history.Operation{Kind: history.Push, Outcome: history.Unknown, Items: items})
	r.add(history.Operation{Kind: history.Pop, LeaseID: "lost", Items: items})
}

// A promotion may lose an effect that was visible before and never acknowledged. It must not lose an acknowledged
// effect.
func TestPromotionsLoseOnlyUnacknowledgedEffects(t *testing.T) {
	t.Parallel()
	const began = 15500 * time.Millisecond // after the story
	elsewhere := func(id string) []history.Item { return []history.Item{{Partition: "gone", TransactionID: id}} }
	other := func(id string) []history.Item {
		return []history.Item{{Partition: "p", TransactionID: id, MessageID: "other"}}
	}
	acknowledge := func(items ...history.Item) func(*run) {
		return func(r *run) {
			for i := range items {
				items[i].Status, items[i].Accepted = "completed", true
			}
			r.add(history.Operation{Kind: history.Ack, LeaseID: "lost", Items: items})
		}
	}
	for _, c := range []struct {
		rule string
		// seen adds effects that are visible before the promotion. The promotion ends at ended.
		seen  func(*run)
		ended time.Duration
		// then adds operations after the promotion. kept adds an acknowledgment, so that the promotion must not lose
		// the effects.
		then, kept func(*run)
	}{
		{"unpushed", func(r *run) { r.lose(pushed("x")) }, 20 * time.Second, func(*run) {}, acknowledge(pushed("x")...)},
		{"counts", func(r *run) { r.lose(elsewhere("x")) }, 20 * time.Second, func(*run) {}, acknowledge(elsewhere("x")...)},
		{"dedup", func(r *run) { r.lose(other("x")) }, 20 * time.Second, func(r *run) { r.again("x") }, acknowledge(other("x")...)},
		{"push-order", func(r *run) { r.lose(pushed("y")) }, 20 * time.Second, func(r *run) { r.again("x", "y") }, acknowledge(pushed("y")...)},
		{"order", func(r *run) { r.lose(pushed("x", "y")) }, 20 * time.Second, func(r *run) { r.again("y", "x") }, acknowledge(pushed("x", "y")...)},
		{"skipped", func(r *run) { r.lose(pushed("y")) }, 20 * time.Second, func(r *run) { r.again("x", "y") }, acknowledge(pushed("y")...)},
		{
			"stored", func(r *run) {
				r.add(history.Operation{Kind: history.Push, Outcome: history.Unknown, Items: pushed("x")})
			}, 20 * time.Second,
			func(*run) {}, func(r *run) { r.op(9).Outcome = history.Done },
		},
		{
			"counts", func(r *run) {
				r.add(history.Operation{Kind: history.Push, Items: pushed("x")})
				r.part().LastSeq, r.part().Log = 5, logOf("a", "b", "c", "d", "x")
				r.lose(pushed("y")) // on the old primary, a lost ack moved the cursor past x
			}, 22 * time.Second, func(r *run) {
				r.add(history.Operation{Kind: history.Pop, LeaseID: "new", Items: delivered("x")})
				r.options.Undrained = true
			}, func(r *run) {
				r.add(history.Operation{Kind: history.Ack, LeaseID: "new", Items: acked("completed", "x")})
			},
		},
		{
			"cursor", func(r *run) {
				r.state.Samples = []check.Sample{{At: 17 * time.Second, Queue: "q", Partition: "p", Group: "g", Committed: 5, LastSeq: 5}}
			}, 20 * time.Second, func(*run) {}, func(r *run) { r.state.Samples[0].At = began - time.Second },
		},
		{
			"stuck", func(r *run) {
				r.options.WakeBound = time.Second
				r.add(history.Operation{Kind: history.Push, Items: pushed("x")})
				r.part().LastSeq, r.part().Log = 5, logOf("a", "b", "c", "d", "x")
				r.add(history.Operation{Kind: history.Pop, LeaseID: "lost", Items: delivered("x")})
				r.add(history.Operation{Kind: history.Pop, Wait: 10 * time.Second}).End += 5 * time.Second
			}, 27 * time.Second, func(r *run) {
				r.add(history.Operation{Kind: history.Pop, LeaseID: "new", Items: delivered("x")}).Begin += 10 * time.Second
				r.op(12).End += 10 * time.Second
				r.cursor().Committed, r.cursor().Consumed = 5, 5
				r.add(history.Operation{Kind: history.Ack, LeaseID: "new", Items: acked("completed", "x")}).Begin += 20 * time.Second
				r.op(13).End += 20 * time.Second
			}, func(r *run) { r.op(11).End += 10 * time.Second }, // the wait continues after the promotion
		},
	} {
		t.Run(c.rule, func(t *testing.T) {
			t.Parallel()
			reported := func(r *run) bool {
				return slices.ContainsFunc(r.judge(), func(v check.Violation) bool { return v.Rule == c.rule })
			}
			r := story()
			c.seen(r)
			c.then(r)
			if c.rule != "stored" {
				require.NotEmpty(t, r.judge(), "without a promotion")
			}
			promotion := history.Operation{ID: 100, Kind: history.Rewound, Begin: began, End: c.ended}
			r.operations = append(r.operations, promotion)
			require.Empty(t, r.judge(), "with the promotion")
			r.operations = r.operations[:len(r.operations)-1]
			c.kept(r)
			r.operations = append(r.operations, promotion)
			require.True(t, reported(r), "the loss of an acknowledged effect is reported: %v", r.judge())
		})
	}
}

// A lease in the tables was not lost, so the checker checks its delivery.
func TestDeliveriesUnderALeaseOfTheTablesAreChecked(t *testing.T) {
	t.Parallel()
	r := story()
	r.lose(pushed("x"))
	r.add(history.Operation{Kind: history.Ack, LeaseID: "lost", Items: pushed("x")}) // not accepted
	r.operations = append(r.operations, history.Operation{ID: 100, Kind: history.Rewound, Begin: 16 * time.Second, End: 20 * time.Second})
	require.Empty(t, r.judge())
	r.state.LeasePeriods = []check.LeasePeriod{{Queue: "q", Partition: "p", Group: "g", LeaseID: "lost"}}
	noticed(t, r, "unpushed")
}
