package check_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/chaos/check"
	"github.com/belfry-mq/belfry/test/chaos/history"
)

const day = 24 * time.Hour

// anotherBefore adds an earlier partition with the same name. Operation 9 pushed x, 10 delivered x and 11 completed
// x. Then x was deleted and the partition was removed.
func anotherBefore(r *run) {
	for i, o := range []history.Operation{
		{Kind: history.Push, Items: pushed("x")},
		{Kind: history.Pop, LeaseID: "L0", Items: delivered("x")},
		{Kind: history.Ack, LeaseID: "L0", Items: acked("completed", "x")},
	} {
		r.add(o)
		r.at(9+i, time.Duration(2*i-10)*time.Second, time.Duration(2*i-9)*time.Second)
	}
	r.options.IdleAfter = day
	r.part().ID = 18
	x := logOf("x")[0]
	r.state.Partitions = append(r.state.Partitions, check.Partition{
		Queue: "q", Name: check.Former("p", 17), ID: 17, LastSeq: 1, CompletedRetention: time.Second,
		Removed: &check.Removal{Idle: 2 * day},
		Deleted: []check.Deletion{{Message: x, How: check.Swept, Age: 2 * time.Second}},
		Cursors: []check.Cursor{{Group: "g", FromStart: true, Committed: 1, Consumed: 1}},
	})
	r.state.Sweeps = []check.Sweep{{Queue: "q", Completed: 1}}
}

func (r *run) former() *check.Partition { return &r.state.Partitions[1] }

func TestOnlyEmptyIdlePartitionsAreRemoved(t *testing.T) {
	t.Parallel()
	runBreaches(t, []breach{
		{
			"a partition with a message is removed", "removed", "it was removed with 1 messages", 0,
			after(anotherBefore, func(r *run) { r.former().Removed.Messages = 1 }),
			func(r *run) { r.former().Removed.Messages = 0 },
		},
		{
			"while it is used", "removed", "it was removed 1h0m0s after the last push, but a removal is allowed only after 24h0m0s without a push", 0,
			after(anotherBefore, func(r *run) { r.former().Removed.Idle = time.Hour }),
			func(r *run) { r.former().Removed.Idle = day },
		},
		{
			"an answered push is lost", "stored unpushed counts", `the push of "x" was answered with success, but the message is not in the log`, 9,
			after(anotherBefore, func(r *run) { r.former().Deleted, r.former().LastSeq, r.state.Sweeps = nil, 0, nil }),
			func(r *run) { r.op(9).Outcome = history.Unknown; r.drop(10); r.drop(11); r.former().Cursors = nil },
		},
		{
			"a partition is removed before its message is delivered", "delivered counts", `"x" at 1 is before the cursor, at 1, but was never delivered`, 9,
			after(anotherBefore, func(r *run) { r.op(10).Group, r.op(11).Group = "h", "h" }),
			func(r *run) { r.op(10).Group, r.op(11).Group = "g", "g" },
		},
		{
			"a pop that waits by name is not woken", "stuck", "the pop came back empty after 4s", 12,
			func(r *run) {
				anotherBefore(r)
				r.options.WakeBound, r.options.LeaseDuration = 2*time.Second, time.Second
				r.at(10, -5*time.Second, -4500*time.Millisecond)
				r.at(11, -4*time.Second, -3*time.Second)
				r.add(history.Operation{Kind: history.Pop, Partition: "p", Wait: time.Minute})
				r.at(12, -9500*time.Millisecond, -5500*time.Millisecond)
				for i := range r.operations { // moves the history, so that nothing is ready before it begins
					r.operations[i].Begin += 20 * time.Second
					r.operations[i].End += 20 * time.Second
				}
			},
			func(r *run) { r.op(12).End = 12500 * time.Millisecond },
		},
		{
			"a pop that waits for the next partition is not woken", "stuck", "the pop came back empty after 5s", 12,
			func(r *run) {
				anotherBefore(r)
				r.options.WakeBound, r.options.LeaseDuration = 2*time.Second, time.Second
				r.add(history.Operation{Kind: history.Pop, Partition: "p", Wait: time.Minute})
				r.at(12, -time.Second, 4*time.Second)
			},
			func(r *run) { r.op(12).End = 2500 * time.Millisecond },
		},
		{
			"the log of the present partition becomes shorter", "cursor", "the log ended with 5 at -7s, and with 4 in the end", 0,
			func(r *run) {
				anotherBefore(r)
				r.state.Samples = []check.Sample{{At: -7 * time.Second, Queue: "q", Partition: "p", ID: 18, Group: "g", LastSeq: 5}}
			},
			func(r *run) { r.state.Samples[0].ID = 16 },
		},
	})
}

// Cut keeps all partitions with the name of the partition in the violation, because clients cannot distinguish them.
func TestCutKeepsAllPartitionsOfTheName(t *testing.T) {
	t.Parallel()
	r := story()
	anotherBefore(r)
	r.op(10).Group, r.op(11).Group = "h", "h"
	found := r.judge()
	at := slices.IndexFunc(found, func(v check.Violation) bool { return v.Rule == "delivered" })
	require.GreaterOrEqual(t, at, 0)
	require.Equal(t, "p#17", found[at].Partition)
	cut, state := check.Cut(r.operations, found[at]), check.CutState(r.state, found[at])
	require.Len(t, state.Partitions, 2)
	require.Len(t, cut, 9)
	require.Contains(t, check.Run(cut, state, r.options), found[at])
}
