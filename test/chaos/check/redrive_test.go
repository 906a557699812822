package check_test

import (
	"testing"
	"time"

	"github.com/belfry-mq/belfry/test/chaos/history"
)

// revive puts d back, which is dead after the story (9), and has it delivered (10)
// and completed (11).
func revive(r *run) {
	r.add(history.Operation{Kind: history.Redrive})
	r.add(history.Operation{Kind: history.Pop, LeaseID: "L4", Items: came("d")})
	r.add(history.Operation{Kind: history.Ack, LeaseID: "L4", Items: acked("completed", "d")})
	r.cursor().Dead = nil
}

func TestWhatIsPutBackComesAgainOnce(t *testing.T) {
	t.Parallel()
	runBreaches(t, []breach{
		{
			"it does not come again", "dead", `"d" at 4 was dead-lettered and put back, but it was never delivered again`, 8,
			func(r *run) {
				revive(r)
				r.drop(10)
				r.drop(11)
			},
			func(r *run) { r.cursor().Dead, r.op(9).Outcome = []int64{4}, history.Unknown },
		},
		{
			"it still waits in the end", "leftover", "after the drain 1 messages that were put back are left", 0,
			func(r *run) {
				revive(r)
				r.cursor().Redriven = []int64{4}
			},
			func(r *run) { r.cursor().Redriven = nil },
		},
		{
			"it is still dead", "dead", `"d" at 4 was dead-lettered by operation 8, answered before this redrive began, and still is`, 9,
			func(r *run) {
				revive(r)
				r.cursor().Dead = []int64{4}
			},
			func(r *run) {
				r.op(11).Items = acked("failed", "d")
				r.op(11).Items[0].DeadLettered = true
			},
		},
		{
			"it comes again after it was completed", "again", `"d" at 4 was delivered, but what is at 4 was completed by operation 11`, 12,
			func(r *run) {
				revive(r)
				r.add(history.Operation{Kind: history.Pop, LeaseID: "L5", Items: came("d")})
			},
			func(r *run) { r.op(12).Begin = 20500 * time.Millisecond },
		},
		{
			"a redrive of another group brings nothing back", "again", `"d" at 4 was delivered`, 10,
			func(r *run) {
				revive(r)
				r.op(9).Group = "h"
			},
			func(r *run) { r.op(9).Group = "g" },
		},
		{
			"what was completed does not come back with it", "again", `"a" at 1 was delivered`, 10,
			func(r *run) {
				revive(r)
				r.op(10).Items = came("a", "d")
			},
			func(r *run) { r.op(10).Items = came("d") },
		},
	})
}

// reviveTheSecond has b, which died before a, c and d are delivered again, put
// back (9), delivered (10) and completed (11) before that.
func reviveTheSecond(r *run) {
	buryTheSecond(r)
	at := func(o history.Operation, begin time.Duration) {
		one := r.add(o)
		one.Begin, one.End = begin, begin+100*time.Millisecond
	}
	at(history.Operation{Kind: history.Redrive}, 7200*time.Millisecond)
	at(history.Operation{Kind: history.Pop, LeaseID: "L4", Items: came("b")}, 7400*time.Millisecond)
	at(history.Operation{Kind: history.Ack, LeaseID: "L4", Items: acked("completed", "b")}, 7600*time.Millisecond)
	r.cursor().Dead = []int64{4}
}

func TestARedeliveryStandsForItself(t *testing.T) {
	t.Parallel()
	runBreaches(t, []breach{
		{
			"together with messages of the log", "order", `"b" at 2, which was dead-lettered and put back, together with "c" at 3`, 5,
			func(r *run) {
				reviveTheSecond(r)
				r.op(5).Items = came("a", "b", "c", "d")
			},
			func(r *run) { r.op(5).Items = came("a", "c", "d") },
		},
		{
			"what was put back comes in order", "order", `the delivery has "b" at 2 behind "d" at 4`, 10,
			func(r *run) {
				buryTheSecond(r)
				r.add(history.Operation{Kind: history.Redrive})
				r.add(history.Operation{Kind: history.Pop, LeaseID: "L4", Items: came("d", "b")})
				r.add(history.Operation{Kind: history.Ack, LeaseID: "L4", Items: acked("completed", "b", "d")})
				r.cursor().Dead = nil
			},
			func(r *run) { r.op(10).Items = came("b", "d") },
		},
	})
}
