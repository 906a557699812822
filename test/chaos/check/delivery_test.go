package check_test

import (
	"slices"
	"testing"
	"time"

	"github.com/belfry-mq/belfry/test/chaos/check"
	"github.com/belfry-mq/belfry/test/chaos/history"
)

func TestDeliveriesAreInOrder(t *testing.T) {
	t.Parallel()
	runBreaches(t, []breach{
		{
			"two swapped", "order skipped", `the delivery has "a" at 1 after "b" at 2`, 3,
			func(r *run) { r.op(3).Items = delivered("b", "a") }, func(r *run) { r.op(3).Items = delivered("a", "b") },
		},
		{
			"the same twice", "order", `the delivery has "a" at 1 after "a" at 1`, 3,
			func(r *run) { r.op(3).Items = delivered("a", "a", "b") }, func(r *run) { r.op(3).Items = delivered("a", "b") },
		},
		{
			"one left out", "order delivered", `the delivery leaves out "b" at 2, which is neither dead-lettered nor deleted, between 1 and 3`, 3,
			func(r *run) { r.op(3).Items = delivered("a", "c") },
			func(r *run) { r.op(3).Items = delivered("a", "b", "c") },
		},
		{
			"a dead letter may be left out once it can be dead", "order lease", `leaves out "b" at 2`, 5,
			after(deadLetterTheSecond, func(r *run) { r.op(4).Begin, r.op(4).End = 9500*time.Millisecond, 9600*time.Millisecond }),
			func(r *run) { r.op(4).Begin, r.op(4).End = 6*time.Second, 7*time.Second },
		},
	})
}

// deadLetterTheSecond makes b a dead letter. Then a, c and d are delivered again.
func deadLetterTheSecond(r *run) {
	r.op(4).Items = acked("failed", "b")
	r.op(4).Items[0].DeadLettered = true
	r.op(5).Items = delivered("a", "c", "d")
	r.op(6).Items = slices.Concat(acked("completed", "a", "c"), acked("failed", "d"))
	r.cursor().Dead = []int64{2, 4}
}

func TestNoMessageIsSkipped(t *testing.T) {
	t.Parallel()
	runBreaches(t, []breach{
		{
			"a delivery begins too far", "skipped delivered", `the delivery starts with "d" at 4, but "c" at 3`, 5,
			func(r *run) { r.op(5).Items = delivered("d") },
			func(r *run) { r.op(5).Items = delivered("c", "d") },
		},
		{
			"an ack that was not accepted does not move the cursor", "skipped", `starts with "c" at 3, but "b" at 2`, 5,
			func(r *run) { r.op(4).Items[1].Accepted = false },
			func(r *run) { r.op(4).Items[1].Accepted = true },
		},
		{
			"an ack of unknown outcome may have moved the cursor, a refused ack has not", "skipped", `starts with "c" at 3, but "a" at 1`, 5,
			func(r *run) { r.op(4).Outcome = history.Refused },
			func(r *run) { r.op(4).Outcome = history.Unknown },
		},
		{
			"an ack that began later does not explain a gap", "skipped lease", `starts with "c" at 3`, 5,
			func(r *run) { r.op(4).Begin, r.op(4).End = 9500*time.Millisecond, 9600*time.Millisecond },
			func(r *run) { r.op(4).Begin = 8500 * time.Millisecond },
		},
		{
			"a lost autoAck delivery explains one gap", "skipped", `starts with "c" at 3, but "a" at 1`, 5,
			func(r *run) {
				r.drop(4)
				r.op(3).LeaseID = "L0"
			},
			func(r *run) {
				o := r.add(history.Operation{Kind: history.Pop, Outcome: history.Unknown, AutoAck: true})
				o.Begin, o.End = 6*time.Second, 7*time.Second
			},
		},
		{
			"a lost autoAck delivery explains no gap after a message that another pop consumed", "skipped delivered", `starts with "d" at 4, but "c" at 3`, 5,
			func(r *run) {
				r.op(3).Items, r.op(3).AutoAck, r.op(3).LeaseID = delivered("b"), true, ""
				r.op(4).Items = nil
				o := r.add(history.Operation{Kind: history.Pop, Outcome: history.Unknown, AutoAck: true})
				o.Begin, o.End = r.op(3).Begin, r.op(3).Begin
				r.op(5).Items = delivered("d")
			},
			// The lost delivery may continue after b if b is a dead letter.
			func(r *run) {
				r.op(3).AutoAck, r.op(3).LeaseID, r.op(3).Items = false, "L0", delivered("a", "b", "c")
				r.op(4).LeaseID, r.op(4).Items = "L0", acked("dlq", "b")
				r.op(4).Items[0].DeadLettered = true
				r.op(9).Begin, r.op(9).End = 7*time.Second, 8*time.Second
				r.cursor().Dead, r.cursor().Consumed = []int64{2, 4}, 3
			},
		},
		{
			"autoAck consumes only the messages that it delivers", "skipped delivered", `starts with "c" at 3, but "b" at 2`, 5,
			func(r *run) {
				r.op(3).AutoAck, r.op(3).LeaseID, r.op(3).Items = true, "", delivered("a")
				r.op(4).Items = nil
			},
			func(r *run) { r.op(3).Items = delivered("a", "b") },
		},
		{
			"an autoAck delivery does not excuse itself", "skipped", `starts with "c" at 3, but "a" at 1`, 5,
			func(r *run) {
				r.op(4).Items = nil
				r.op(5).AutoAck, r.op(5).LeaseID = true, ""
				r.op(6).LeaseID, r.op(6).Items = "", acked("completed", "d")
				r.op(7).Items, r.op(8).Items = nil, nil
				r.cursor().Dead = nil
			},
			func(r *run) { r.op(4).Items = acked("completed", "a", "b") },
		},
	})
}

func TestSettledMessagesAreNotDeliveredAgain(t *testing.T) {
	t.Parallel()
	repeat := func(items ...string) func(*run) {
		return func(r *run) { r.add(history.Operation{Kind: history.Pop, LeaseID: "L4", Items: delivered(items...)}) }
	}
	runBreaches(t, []breach{
		{
			"completed and delivered again", "again", `"a" at 1 was delivered, but the message at 3 was completed by operation 6, answered 5s before`, 9,
			repeat("a", "b"), func(r *run) { r.op(9).Begin = 4500 * time.Millisecond },
		},
		{
			"dead-lettered and delivered again", "again", `"d" at 4 was delivered, but the message at 4 was dead-lettered by operation 8`, 9,
			repeat("d"), func(r *run) { r.op(9).Begin = 15 * time.Second },
		},
		{
			"until a redrive", "again", `"d" at 4`, 9, repeat("d"),
			func(r *run) {
				o := r.add(history.Operation{Kind: history.Redrive})
				o.Begin, o.End = 15500*time.Millisecond, 15600*time.Millisecond
				r.cursor().Dead = nil
			},
		},
		{
			"consumed by autoAck", "again", `"b" at 2 was delivered, but the message at 2 was consumed by autoAck by operation 3`, 5,
			func(r *run) {
				r.op(3).AutoAck, r.op(3).LeaseID = true, ""
				r.op(4).Items = nil
				r.op(5).Items = delivered("b", "c", "d")
			},
			func(r *run) {
				r.op(5).Begin = 4500 * time.Millisecond
			},
		},
		{
			"a message pushed during the wait shows when the pop claimed", "again", `"c" at 3`, 7,
			func(r *run) {
				// The pop waited from the begin of the run. e was pushed after the ack of c.
				e := r.add(history.Operation{Kind: history.Push, Items: pushed("e")})
				e.Begin, e.End = 11500*time.Millisecond, 11600*time.Millisecond
				r.op(7).Begin, r.op(7).Items = 0, delivered("c", "d", "e")
				r.add(history.Operation{Kind: history.Ack, Items: acked("completed", "e")})
				r.part().Log, r.part().LastSeq = logOf("a", "b", "c", "d", "e"), 5
				r.cursor().Committed, r.cursor().Consumed = 5, 5
			},
			func(r *run) { r.op(7).Items = delivered("d", "e") },
		},
	})
}

func TestDeadLettersMatchTheAcks(t *testing.T) {
	t.Parallel()
	runBreaches(t, []breach{
		{
			"an ack reported a dead letter that does not exist", "dead", `the ack was answered that "d" at 4 is a dead letter, but the tables do not have it`, 8,
			func(r *run) { r.cursor().Dead = nil }, func(r *run) { r.cursor().Dead = []int64{4} },
		},
		{
			"a dead letter without an ack", "dead", `"a" at 1 is a dead letter, but no ack can have caused this`, 0,
			func(r *run) { r.cursor().Dead = []int64{1, 4} },
			func(r *run) {
				r.add(history.Operation{Kind: history.Ack, Outcome: history.Unknown, Items: acked("failed", "a")})
			},
		},
	})
}

func TestOnlyOneLeaseAtATime(t *testing.T) {
	t.Parallel()
	late := func(kind history.Kind) func(*run) {
		return func(r *run) {
			o := r.add(history.Operation{Kind: kind, LeaseID: "L1"})
			o.Begin, o.End = 10500*time.Millisecond, 11500*time.Millisecond
			if kind == history.Ack {
				o.Items = acked("completed", "a")
			}
		}
	}
	runBreaches(t, []breach{
		{
			"a stale ack is accepted", "lease", "accepted under lease L1 and began 1.5s after operation 5 showed that lease L2 was alive", 9,
			late(history.Ack), func(r *run) { r.op(9).Items[0].Accepted = false },
		},
		{
			"a stale extend is accepted", "lease", "accepted under lease L1", 9,
			late(history.Extend), func(r *run) { r.op(9).Outcome = history.Refused },
		},
		{
			"the server may have accepted the ack before the new lease", "lease", "accepted under lease L1", 9,
			late(history.Ack), func(r *run) { r.op(9).Begin = 8500 * time.Millisecond },
		},
		{
			"a pop may have claimed late, but an ack after it proves the lease", "lease", "accepted under lease L1", 9,
			func(r *run) {
				late(history.Ack)(r)
				r.op(5).Begin = 2500 * time.Millisecond
			},
			func(r *run) { r.op(9).Outcome = history.Unknown },
		},
		{
			"a lease is given twice", "lease", "operation 5 received the lease L2 before", 7,
			func(r *run) { r.op(7).LeaseID, r.op(8).LeaseID = "L2", "L2" },
			func(r *run) { r.op(7).LeaseID, r.op(8).LeaseID = "L3", "L3" },
		},
		{
			"the clock of the database shows two leases at once", "lease", "lease L2 was given 1s before lease L1 ended", 5,
			func(r *run) {
				at := func(second int) time.Time { return time.Unix(int64(second), 0) }
				r.state.LeasePeriods = []check.LeasePeriod{
					{Queue: "q", Partition: "p", Group: "g", LeaseID: "L1", From: at(4), Until: at(9)},
					{Queue: "q", Partition: "p", Group: "h", LeaseID: "other", From: at(5), Until: at(9)},
					{Queue: "q", Partition: "p", Group: "g", LeaseID: "L2", From: at(8), Until: at(10)},
				}
			},
			func(r *run) { r.state.LeasePeriods[0].Until = time.Unix(8, 0) },
		},
	})
}
