package check_test

import (
	"slices"
	"testing"
	"time"

	"github.com/belfry-mq/belfry/test/chaos/check"
	"github.com/belfry-mq/belfry/test/chaos/history"
)

// without deletes c before any delivery. how is the reason of the deletion.
func without(r *run, how string) *check.Deletion {
	at := slices.IndexFunc(r.part().Log, func(m check.Message) bool { return m.TransactionID == "c" })
	r.part().Deleted = []check.Deletion{{Message: r.part().Log[at], How: how, Age: 7 * time.Second, Unread: true}}
	r.part().Log = slices.Delete(slices.Clone(r.part().Log), at, at+1)
	r.op(5).Items, r.op(6).Items = delivered("d"), acked("failed", "d")
	r.cursor().Consumed = 3
	if how == check.Swept {
		r.part().Retention = 5 * time.Second
		r.state.Sweeps = []check.Sweep{{Queue: "q", Retention: 1, Unread: 1}}
	}
	return &r.part().Deleted[0]
}

// askFor deletes c by name after a and b were completed. It is operation 9.
func askFor(r *run) *history.Operation {
	o := r.add(history.Operation{Kind: history.DeleteMessage, Items: pushed("c")})
	o.Begin, o.End, o.Group = 7100*time.Millisecond, 7200*time.Millisecond, ""
	o.Items[0].MessageID, o.Items[0].Accepted = "", true
	return o
}

func TestOnlyDeletedMessagesAreMissing(t *testing.T) {
	t.Parallel()
	runBreaches(t, []breach{
		{
			"no client requested the deletion", "deleted skipped", `"c" at 3 was deleted by its name, but no client requested it`, 1,
			func(r *run) { without(r, check.Asked) },
			func(r *run) { askFor(r).Outcome = history.Unknown },
		},
		{
			"it is missing without a deletion", "stored counts", `the push of "c" was answered with success, but the message is not in the log`, 1,
			func(r *run) {
				without(r, check.Asked)
				r.part().Deleted = nil
			},
			func(r *run) {
				r.part().Log = logOf("a", "b", "c", "d")
				without(r, check.Asked)
				askFor(r)
			},
		},
		{
			"the next message is missing too", "counts stored unpushed", "last_seq is 4, but the log has 3 messages", 0,
			func(r *run) {
				without(r, check.Asked)
				askFor(r)
				r.part().Log = r.part().Log[:2]
			},
			func(r *run) { r.part().Log = append(r.part().Log, logOf("a", "b", "c", "d")[3]) },
		},
		{
			"it is still in the log", "deleted", `the deletion of "c" was answered with success, but the message is in the log at 3`, 9,
			func(r *run) { askFor(r) },
			func(r *run) { r.op(9).Outcome = history.Unknown },
		},
		{
			"the deletion did not find it", "deleted", `the deletion of "c" found nothing, but the message is in the log at 3`, 9,
			func(r *run) { askFor(r).Items[0].Accepted = false },
			func(r *run) { r.op(9).Begin = 500 * time.Millisecond },
		},
		{
			"it is delivered afterwards", "deleted", `"c" at 3 was delivered, but operation 9 had deleted it 800ms before`, 5,
			func(r *run) {
				without(r, check.Asked)
				askFor(r)
				r.op(5).Items = delivered("c", "d")
			},
			func(r *run) { r.op(9).End = 8500 * time.Millisecond },
		},
		{
			"it was skipped before the request", "skipped", `the delivery starts with "d" at 4, but "c" at 3`, 5,
			func(r *run) {
				without(r, check.Asked)
				askFor(r).Begin, r.op(9).End = 9500*time.Millisecond, 9600*time.Millisecond
			},
			func(r *run) { r.op(9).Begin = 8900 * time.Millisecond },
		},
		{
			"a delivery left it out before the request", "order", `the delivery leaves out "c" at 3, which is neither dead-lettered nor deleted`, 5,
			func(r *run) {
				without(r, check.Asked)
				askFor(r).Begin, r.op(9).End = 9500*time.Millisecond, 9600*time.Millisecond
				r.op(4).Items = acked("retry", "a", "b")
				r.op(5).Items = delivered("a", "b", "d")
				r.op(6).Items = slices.Concat(acked("completed", "a", "b"), acked("failed", "d"))
			},
			func(r *run) { r.op(9).Begin = 8900 * time.Millisecond },
		},
	})
}

func TestSweepsDeleteOnlyOldMessages(t *testing.T) {
	t.Parallel()
	early := func(r *run) { without(r, check.Swept).Age = 4 * time.Second }
	done := func(r *run) {
		without(r, check.Swept)
		r.part().Retention, r.part().CompletedRetention = 0, 5*time.Second
		r.state.Sweeps[0] = check.Sweep{Queue: "q", Completed: 1, Unread: 1}
		r.op(5).Items, r.op(6).Items = delivered("c", "d"), slices.Concat(acked("completed", "c"), acked("failed", "d"))
	}
	expire := func(r *run) {
		r.part().ExpireAfter = 5 * time.Second
		r.op(8).Items[0].DeadLettered, r.op(8).Items[0].Accepted = false, false
		r.cursor().Consumed = 3
		r.cursor().Expired = []check.Expiry{{Seq: 4, Age: 5 * time.Second}}
		r.state.Sweeps = []check.Sweep{{Queue: "q", Expired: 1}}
	}
	runBreaches(t, []breach{
		{
			"too early", "deleted", `"c" at 3 was deleted by a sweep at the age of 4s, but its queue keeps messages for 5s`, 1, early,
			func(r *run) { r.part().Deleted[0].Age = 5 * time.Second },
		},
		{
			"from a queue without retention", "deleted delivered skipped", "but its queue keeps messages for 0s", 1,
			after(early, func(r *run) { r.part().Retention = 0 }),
			func(r *run) { r.part().Retention = 4 * time.Second },
		},
		{
			"while a lease holds it", "deleted", `"c" at 3 was deleted by a sweep while a lease held it`, 1,
			func(r *run) { without(r, check.Swept).Held = true },
			func(r *run) { r.part().Deleted[0].Held = false },
		},
		{
			"as completed, although a group has not passed it", "deleted", `"c" at 3 was deleted by a sweep as completed, but some group had not passed it`, 1, done,
			func(r *run) { r.part().Deleted[0].Unread, r.state.Sweeps[0].Unread = false, 0 },
		},
		{
			"as completed, although it was never delivered", "delivered skipped", `"c" at 3 is before the cursor, at 4, but was never delivered`, 1,
			func(r *run) {
				done(r)
				r.part().Deleted[0].Unread, r.state.Sweeps[0].Unread = false, 0
				r.op(5).Items, r.op(6).Items = delivered("d"), acked("failed", "d")
			},
			func(r *run) {
				r.op(5).Items, r.op(6).Items = delivered("c", "d"), slices.Concat(acked("completed", "c"), acked("failed", "d"))
			},
		},
		{
			"with a queue that exists", "deleted", `"c" at 3 was deleted with its queue, but the queue exists`, 1,
			func(r *run) {
				without(r, check.Swept).How = check.Purged
				r.state.Sweeps = nil
			},
			func(r *run) {
				r.part().Deleted[0].How, r.state.Sweeps = check.Swept, []check.Sweep{{Queue: "q", Retention: 1, Unread: 1}}
			},
		},
		{
			"a group passes a message that is not old", "skipped", `the delivery starts with "d" at 4, but "c" at 3`, 5,
			func(r *run) {
				without(r, check.Swept)
				r.part().Retention, r.part().Deleted[0].Age = 10*time.Second, 10*time.Second
			},
			func(r *run) { r.part().Retention = 8 * time.Second },
		},
		{
			"the skipped message is not a dead letter of any group", "delivered", `"c" at 3 is before the cursor, at 4, but was never delivered`, 1,
			func(r *run) {
				r.part().Retention = 5 * time.Second
				r.op(5).Items, r.op(6).Items = delivered("d"), acked("failed", "d")
				r.cursor().Consumed = 3
				r.add(history.Operation{Kind: history.Pop, LeaseID: "L4", Items: delivered("a", "b", "c", "d")}).Group = "h"
				r.add(history.Operation{Kind: history.Ack, LeaseID: "L4", Items: acked("completed", "a", "b", "c", "d")}).Group = "h"
				r.part().Cursors = append(r.part().Cursors, check.Cursor{Group: "h", FromStart: true, Committed: 4, Consumed: 4})
				r.at(9, 3100*time.Millisecond, 3200*time.Millisecond) // the lease has ended when the message is old enough
				r.at(10, 3300*time.Millisecond, 3400*time.Millisecond)
			},
			func(r *run) {
				r.op(10).Items[2].Status, r.op(10).Items[2].DeadLettered = "failed", true
				r.part().Cursors[1].Dead = []int64{3}
			},
		},
		{
			"a cursor moves back although no sweep moves it", "cursor", "the cursor moved back from 2 at 7s to 1 at 8s", 0,
			func(r *run) {
				r.state.Moves = []check.Move{move(check.Joined, 1, 0, 0, 0)}
				for i := range 2 {
					r.state.Samples = append(r.state.Samples, check.Sample{
						At: time.Duration(7+i) * time.Second, Queue: "q", Partition: "p", Group: "g", Committed: int64(2 - i), LastSeq: 4,
					})
				}
			},
			func(r *run) { r.part().Retention = 5 * time.Second },
		},
		{
			"a deletion that is not counted", "swept", "1 messages were deleted by sweeps, but the counters show 0", 0,
			func(r *run) {
				without(r, check.Swept)
				r.state.Sweeps = nil
			},
			func(r *run) { r.state.Sweeps = []check.Sweep{{Queue: "q", Retention: 1, Unread: 1}} },
		},
		{
			"a deletion that is not counted as unread", "swept", "1 messages were deleted unread, but the counters show 0", 0,
			func(r *run) {
				without(r, check.Swept)
				r.state.Sweeps[0].Unread = 0
			},
			func(r *run) { r.state.Sweeps[0].Unread = 1 },
		},
		{
			"it expired too early", "expired", "the message at 4 expired at the age of 4s, but its queue expires messages at the age of 5s", 0,
			after(expire, func(r *run) { r.cursor().Expired[0].Age = 4 * time.Second }),
			func(r *run) { r.cursor().Expired[0].Age = 5 * time.Second },
		},
		{
			"it did not expire", "dead skipped", `"d" at 4 is a dead letter, but no ack can have caused this`, 0,
			after(expire, func(r *run) { r.cursor().Expired, r.state.Sweeps = nil, nil }),
			func(r *run) { expire(r) },
		},
		{
			"its expiry is not counted", "swept", "1 messages were expired unread, but the counters show 0", 0,
			after(expire, func(r *run) { r.state.Sweeps = nil }),
			func(r *run) { r.state.Sweeps = []check.Sweep{{Queue: "q", Expired: 1}} },
		},
	})
}

// before adds an earlier queue with the same name: operation 9 pushed x, 10 delivered x, and 11 deleted the queue.
func before(r *run) {
	at := func(o history.Operation, second int) *history.Operation {
		one := r.add(o)
		one.Begin = time.Duration(second) * time.Second
		one.End = one.Begin + time.Second
		return one
	}
	at(history.Operation{Kind: history.Push, Items: pushed("x")}, -10)
	at(history.Operation{Kind: history.Pop, LeaseID: "L0", Items: delivered("x")}, -8)
	at(history.Operation{Kind: history.DeleteQueue}, -6).Group = ""
	r.state.Erased = []check.Erased{{Queue: "q", Partition: "p", TransactionID: "x"}}
}

func TestDeletingAQueueDeletesItsMessages(t *testing.T) {
	t.Parallel()
	runBreaches(t, []breach{
		{
			"an older message stays", "erased", `"a" is in the log at 1, but it was stored 1s before this deletion of its queue began`, 11,
			after(before, func(r *run) { r.op(11).Begin, r.op(11).End = 2*time.Second, 3*time.Second }),
			func(r *run) { r.op(11).Outcome = history.Unknown },
		},
		{
			"without a deletion", "erased", `"x" was deleted with its queue, but no deletion of the queue ended after`, 9,
			after(before, func(r *run) { r.drop(11) }),
			func(r *run) { r.add(history.Operation{Kind: history.DeleteQueue, Outcome: history.Unknown}).ID = 11 },
		},
		{
			"the deletion ended before the push", "erased", `"x" was deleted with its queue, but no deletion of the queue ended after`, 9,
			after(before, func(r *run) { r.op(11).Begin, r.op(11).End = -20*time.Second, -19*time.Second }),
			func(r *run) { r.op(11).End = -9500 * time.Millisecond },
		},
		{
			"a message is delivered after the deletion", "erased", `"x" was delivered, but operation 11 had deleted its queue 1s before`, 10,
			after(before, func(r *run) { r.op(10).Begin, r.op(10).End = -4*time.Second, -3*time.Second }),
			func(r *run) { r.op(10).Begin = -5500 * time.Millisecond },
		},
		{
			"its log becomes shorter without a deletion", "cursor erased", "the log ended with 5 at -7s, and with 4 in the end", 0,
			func(r *run) {
				before(r)
				r.drop(11)
				r.state.Samples = []check.Sample{{At: -7 * time.Second, Queue: "q", Partition: "p", Group: "g", LastSeq: 5}}
			},
			func(r *run) { r.add(history.Operation{Kind: history.DeleteQueue, Outcome: history.Unknown}).ID = 11 },
		},
		{
			"an acknowledged push is lost with another queue", "stored unpushed", `the push of "x" was answered with success`, 9,
			after(before, func(r *run) { r.state.Erased = nil }),
			func(r *run) { r.state.Erased = []check.Erased{{Queue: "q", Partition: "p", TransactionID: "x"}} },
		},
	})
}
