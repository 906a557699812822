package check_test

import (
	"testing"
	"time"

	"github.com/belfry-mq/belfry/test/chaos/history"
)

// revive redrives the dead letter d after the story, in operation 9. Operation 10 delivers d, and 11 completes it.
func revive(r *run) {
	r.add(history.Operation{Kind: history.Redrive})
	r.add(history.Operation{Kind: history.Pop, LeaseID: "L4", Items: delivered("d")})
	r.add(history.Operation{Kind: history.Ack, LeaseID: "L4", Items: acked("completed", "d")})
	r.cursor().Dead = nil
}

func TestRedrivenMessagesAreDeliveredOnce(t *testing.T) {
	t.Parallel()
	runBreaches(t, []breach{
		{
			"a redriven message is never delivered again", "dead", `"d" at 4 was dead-lettered and redriven, but it was never delivered again`, 8,
			func(r *run) {
				revive(r)
				r.drop(10)
				r.drop(11)
			},
			func(r *run) { r.cursor().Dead, r.op(9).Outcome = []int64{4}, history.Unknown },
		},
		{
			"a redriven message is left at the end", "leftover", "after the drain 1 redriven messages are left", 0,
			after(revive, func(r *run) { r.cursor().Redriven = []int64{4} }),
			func(r *run) { r.cursor().Redriven = nil },
		},
		{
			"a redriven message is still a dead letter", "dead", `"d" at 4 became a dead letter by operation 8, answered before this redrive began, and is still a dead letter`, 9,
			after(revive, func(r *run) { r.cursor().Dead = []int64{4} }),
			func(r *run) {
				r.op(11).Items = acked("failed", "d")
				r.op(11).Items[0].DeadLettered = true
			},
		},
		{
			"a completed redelivery is delivered again", "again", `"d" at 4 was delivered, but the message at 4 was completed by operation 11`, 12,
			after(revive, func(r *run) { r.add(history.Operation{Kind: history.Pop, LeaseID: "L5", Items: delivered("d")}) }),
			func(r *run) { r.op(12).Begin = 20500 * time.Millisecond },
		},
		{
			"a redrive of another group has no effect", "again dead", `"d" at 4 was delivered`, 10,
			after(revive, func(r *run) { r.op(9).Group = "h" }),
			func(r *run) { r.op(9).Group = "g" },
		},
		{
			"a completed message is not redriven", "again order", `"a" at 1 was delivered`, 10,
			after(revive, func(r *run) { r.op(10).Items = delivered("a", "d") }),
			func(r *run) { r.op(10).Items = delivered("d") },
		},
	})
}

// reviveTheSecond redrives the dead letter b in operation 9. Operation 10 delivers b and 11 completes it, before a, c
// and d are delivered again.
func reviveTheSecond(r *run) {
	deadLetterTheSecond(r)
	at := func(o history.Operation, begin time.Duration) {
		one := r.add(o)
		one.Begin, one.End = begin, begin+100*time.Millisecond
	}
	at(history.Operation{Kind: history.Redrive}, 7200*time.Millisecond)
	at(history.Operation{Kind: history.Pop, LeaseID: "L4", Items: delivered("b")}, 7400*time.Millisecond)
	at(history.Operation{Kind: history.Ack, LeaseID: "L4", Items: acked("completed", "b")}, 7600*time.Millisecond)
	r.cursor().Dead = []int64{4}
}

func TestRedeliveriesContainOnlyRedrivenMessages(t *testing.T) {
	t.Parallel()
	runBreaches(t, []breach{
		{
			"redriven messages together with messages of the log", "order again", `"b" at 2, which was dead-lettered and redriven, together with "c" at 3`, 5,
			after(reviveTheSecond, func(r *run) { r.op(5).Items = delivered("a", "b", "c", "d") }),
			func(r *run) { r.op(5).Items = delivered("a", "c", "d") },
		},
		{
			"redriven messages are delivered in order", "order", `the delivery has "b" at 2 after "d" at 4`, 10,
			func(r *run) {
				deadLetterTheSecond(r)
				r.add(history.Operation{Kind: history.Redrive})
				r.add(history.Operation{Kind: history.Pop, LeaseID: "L4", Items: delivered("d", "b")})
				r.add(history.Operation{Kind: history.Ack, LeaseID: "L4", Items: acked("completed", "b", "d")})
				r.cursor().Dead = nil
			},
			func(r *run) { r.op(10).Items = delivered("b", "d") },
		},
	})
}
