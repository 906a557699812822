package check_test

import (
	"strings"
	"testing"
	"time"

	"github.com/belfry-mq/belfry/test/chaos/check"
	"github.com/belfry-mq/belfry/test/chaos/history"
)

func TestCursorsNeverDecrease(t *testing.T) {
	t.Parallel()
	sample := func(second int, committed, last int64) check.Sample {
		return check.Sample{At: time.Duration(second) * time.Second, Queue: "q", Partition: "p", Group: "g", Committed: committed, LastSeq: last}
	}
	fall := func(r *run) { r.state.Samples = []check.Sample{sample(7, 2, 4), sample(8, 1, 4)} }
	runBreaches(t, []breach{
		{
			"between two samples", "cursor", "the cursor moved back from 2 at 7s to 1 at 8s", 0, fall,
			func(r *run) { r.state.Samples[1].Committed = 2 },
		},
		{
			"below the last sample in the end", "cursor", "the cursor moved back from 5 at 9s to 4 in the end", 0,
			func(r *run) { r.state.Samples = []check.Sample{sample(9, 5, 4)} },
			func(r *run) { r.state.Samples[0].Committed = 4 },
		},
		{
			"the end of a log", "cursor", "the log ended with 4 at 7s, and with 3 at 8s", 0,
			func(r *run) { r.state.Samples = []check.Sample{sample(7, 1, 4), sample(8, 1, 3)} },
			func(r *run) { r.state.Samples[1].LastSeq = 4 },
		},
	})
}

func TestCountsAddUp(t *testing.T) {
	t.Parallel()
	runBreaches(t, []breach{
		{
			"last_seq", "counts", "last_seq is 5, but the log has 4 messages", 0,
			func(r *run) { r.part().LastSeq = 5 }, func(r *run) { r.part().LastSeq = 4 },
		},
		{
			"a hole in the log", "counts leftover dead", "the log has the position 5 instead of 4", 0,
			func(r *run) { r.part().Log[3].Seq = 5 }, func(r *run) { r.part().Log[3].Seq = 4 },
		},
		{
			"a cursor beyond the log", "counts", "the cursor is at 5, outside the log, which ends at 4", 0,
			func(r *run) { r.cursor().Committed, r.cursor().Consumed = 5, 5 },
			func(r *run) { r.cursor().Committed, r.cursor().Consumed = 4, 4 },
		},
		{
			"consumed too little", "counts", "consumed is 2, but the cursor passed 4 messages, 1 of them dead-lettered", 0,
			func(r *run) { r.cursor().Consumed = 2 }, func(r *run) { r.cursor().Consumed = 3 },
		},
		{
			"consumed too much", "counts", "consumed is 5", 0,
			func(r *run) { r.cursor().Consumed = 5 }, func(r *run) { r.cursor().Consumed = 4 },
		},
		{
			"a completed message beyond the cursor", "counts", "the message at 3 was completed, but the cursor is at 2 in the end", 6,
			func(r *run) {
				r.cursor().Committed, r.cursor().Consumed = 2, 2
				r.options.Undrained = true
			},
			func(r *run) { r.cursor().Committed, r.cursor().Consumed = 3, 3 },
		},
		{
			"a group without a cursor", "counts delivered dead", "delivered to a group that has no cursor", 3,
			func(r *run) { r.part().Cursors[0].Group = "h" }, func(r *run) { r.part().Cursors[0].Group = "g" },
		},
		{
			"a partition that does not exist", "counts dedup unpushed", "from a partition that does not exist in the tables", 9,
			func(r *run) {
				o := r.add(history.Operation{Kind: history.Pop, Items: delivered("a")})
				o.Items[0].Partition = "other"
			},
			func(r *run) { r.op(9).Items = nil },
		},
	})
}

// wait adds a waiting pop between two seconds that returns empty although message e is ready. The push of e takes
// second 16 to 17. e has no lease and is consumed at the end.
func wait(from, to int) func(*run) {
	return func(r *run) {
		r.options.WakeBound, r.options.LeaseDuration = 2*time.Second, 30*time.Second
		r.add(history.Operation{Kind: history.Push, Items: pushed("e")})
		o := r.add(history.Operation{Kind: history.Pop, Wait: time.Minute})
		o.Begin, o.End = time.Duration(from)*time.Second, time.Duration(to)*time.Second
		o = r.add(history.Operation{Kind: history.Pop, AutoAck: true, Items: delivered("e")})
		o.Begin, o.End = 40*time.Second, 41*time.Second
		r.part().Log, r.part().LastSeq = logOf("a", "b", "c", "d", "e"), 5
		r.cursor().Committed, r.cursor().Consumed = 5, 5
	}
}

func TestWaitingConsumersAreNotStuck(t *testing.T) {
	t.Parallel()
	const empty = "the pop came back empty after 10s, although a message pushed by operation 9 was ready and unleased for 8s of this time"
	pop := func(change func(*history.Operation)) func(*run) {
		return func(r *run) {
			o := r.add(history.Operation{Kind: history.Pop, Outcome: history.Unknown})
			o.Begin, o.End = 15*time.Second, 16*time.Second
			change(o)
		}
	}
	stalled := func(from, to int) func(*run) {
		return func(r *run) {
			endLeases(r)
			wait(from, to)(r)
		}
	}
	inSQL := func(from, to int) func(*run) {
		return func(r *run) {
			stalled(from, to)(r)
			r.op(10).Kind = history.Await
		}
	}
	runBreaches(t, []breach{
		{"empty while a message waits", "stuck", empty, 10, stalled(15, 25), func(r *run) { r.op(10).End = 19 * time.Second }},
		{
			"a wait in SQL is not woken", "stuck", strings.Replace(empty, "the pop came back empty", "the wait in SQL ended", 1), 10,
			inSQL(15, 25), func(r *run) { r.op(10).End = 19 * time.Second },
		},
		{
			"a wait in SQL may be longer without an instance", "stuck", "the wait in SQL ended", 10, inSQL(15, 25),
			func(r *run) {
				r.options.Windows = []check.FaultWindow{{Begin: 10 * time.Second, End: 18 * time.Second, SQLAllowance: 6 * time.Second}}
			},
		},
		{
			"a wait in SQL may be longer if its request was lost", "stuck", "the wait in SQL ended", 10, inSQL(15, 25),
			func(r *run) {
				r.options.Windows = []check.FaultWindow{{Begin: 10 * time.Second, End: 16 * time.Second, Allowance: 6 * time.Second}}
			},
		},
		{
			"neither reason excuses a pop over HTTP", "stuck", empty, 10,
			func(r *run) {
				stalled(15, 25)(r)
				r.options.Windows = []check.FaultWindow{
					{Begin: 10 * time.Second, End: 18 * time.Second, SQLAllowance: time.Minute},
					{Begin: 10 * time.Second, End: 16 * time.Second, Allowance: time.Minute},
				}
			},
			func(r *run) { r.options.Windows[1].End = 17 * time.Second },
		},
		{
			"a wait that is longer than a fault allows", "stuck", empty, 10, stalled(15, 25),
			func(r *run) {
				r.options.Windows = []check.FaultWindow{
					{Begin: 10 * time.Second, End: 18 * time.Second, Allowance: 4 * time.Second},
					{Begin: 20 * time.Second, End: 21 * time.Second, Allowance: 2 * time.Second},
				}
			},
		},
		{
			"a fault at another time has no allowance", "stuck", empty, 10,
			func(r *run) {
				stalled(15, 25)(r)
				r.options.Windows = []check.FaultWindow{{Begin: 0, End: 5 * time.Second, Allowance: time.Minute}}
			},
			func(r *run) { r.options.Windows[0].End = 17 * time.Second },
		},
		{
			"a pop that waits for another partition is no breach", "stuck", empty, 10, stalled(15, 25),
			func(r *run) { r.op(10).Partition = "other" },
		},
		{
			"a pop of unknown outcome may lease the message", "stuck", empty, 10, stalled(15, 25),
			pop(func(*history.Operation) {}),
		},
		{
			"a pop of unknown outcome in another partition cannot lease the message", "stuck", empty, 10,
			func(r *run) {
				stalled(15, 25)(r)
				pop(func(o *history.Operation) { o.Partition = "other" })(r)
			},
			func(r *run) { r.op(12).Partition = "p" },
		},
		{
			"a pop of unknown outcome leases the message for one lease time", "stuck", "ready and unleased for 3s", 10,
			func(r *run) {
				stalled(15, 25)(r)
				pop(func(*history.Operation) {})(r)
				r.options.LeaseDuration = 6 * time.Second
			},
			func(r *run) { r.options.LeaseDuration = 7 * time.Second },
		},
		{
			"a push without an answer yet is no breach", "stuck", empty, 10, stalled(15, 25),
			func(r *run) { r.op(9).Begin, r.op(9).End = 23*time.Second, 24*time.Second },
		},
		{
			"delivered late to a pop that waited", "stuck", `the pop waited and received "e" at 5 23s after the message was ready and unleased`, 11,
			func(r *run) {
				stalled(15, 15)(r)
				r.op(11).Wait, r.op(11).Begin, r.op(11).End = time.Minute, 10*time.Second, 40*time.Second
			},
			func(r *run) { r.op(11).End = 19 * time.Second },
		},
	})
}

// endLeases ends the story with a completed message instead of a dead letter. The ack of the last message of a lease
// always ends the lease.
func endLeases(r *run) {
	r.op(8).Items = acked("completed", "d")
	r.cursor().Dead = nil
}
