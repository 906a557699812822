package check_test

import (
	"testing"
	"time"

	"github.com/belfry-mq/belfry/test/chaos/check"
	"github.com/belfry-mq/belfry/test/chaos/history"
)

func TestMessagesAreStoredAtMostOnce(t *testing.T) {
	t.Parallel()
	lost := func(r *run) { r.add(history.Operation{Kind: history.Push, Items: pushed("e")}) }
	runBreaches(t, []breach{
		{
			"acknowledged but not in the log", "stored", `"e" was answered with success`, 9, lost,
			func(r *run) { r.op(9).Outcome = history.Unknown },
		},
		{
			"committed by SQL but not in the log", "stored", `"e" was answered with success`, 9,
			after(lost, func(r *run) { r.op(9).Inbox = true }),
			func(r *run) { r.op(9).Outcome = history.Refused },
		},
		{
			"refused but in the log", "stored", `"d" was refused, but the message is in the log at 4`, 2,
			func(r *run) { r.op(2).Outcome = history.Refused },
			func(r *run) { r.op(2).Outcome = history.Unknown },
		},
		{
			"refused once, then acknowledged but not in the log", "stored", `"e"`, 10,
			func(r *run) {
				lost(r)
				r.op(9).Outcome = history.Refused
				lost(r)
			},
			func(r *run) { r.op(10).Outcome = history.Refused },
		},
		{
			"in the log twice", "stored", `"b" is in the log 2 times`, 1,
			func(r *run) {
				r.part().Log = append(r.part().Log, check.Message{Seq: 5, MessageID: "m-b", TransactionID: "b"})
				r.part().LastSeq = 5
				r.cursor().Committed, r.cursor().Consumed = 5, 5
			},
			func(r *run) {
				r.part().Log, r.part().LastSeq = r.part().Log[:4], 4
				r.cursor().Committed, r.cursor().Consumed = 4, 4
			},
		},
	})
}

func TestOneTransactionIDIsOneMessage(t *testing.T) {
	t.Parallel()
	repeat := func(r *run) { r.add(history.Operation{Kind: history.Push, Items: pushed("a")}) }
	runBreaches(t, []breach{
		{
			"two pushes of one message are answered as new", "dedup", `the push of "a" was answered as new, but operation 1 was answered as new before`, 9, repeat,
			func(r *run) { r.op(9).Items[0].Duplicate = true },
		},
		{
			"the answer to a duplicate has another message id", "dedup", `the answer gave "a" the message id m-z, but the log or another answer has m-a`, 9,
			after(repeat, func(r *run) { r.op(9).Items[0].Duplicate, r.op(9).Items[0].MessageID = true, "m-z" }),
			func(r *run) { r.op(9).Items[0].MessageID = "m-a" },
		},
		{
			"a delivery has another message id", "dedup", `the answer gave "b" the message id m-z`, 3,
			func(r *run) { r.op(3).Items[1].MessageID = "m-z" },
			func(r *run) { r.op(3).Items[1].MessageID = "m-b" },
		},
		{
			"two messages under one id", "dedup", "have the same message id m-a", 1,
			func(r *run) {
				r.op(1).Items[1].MessageID, r.op(3).Items[1].MessageID, r.part().Log[1].MessageID = "m-a", "m-a", "m-a"
			},
			func(r *run) {
				r.op(1).Items[1].MessageID, r.op(3).Items[1].MessageID, r.part().Log[1].MessageID = "m-b", "m-b", "m-b"
			},
		},
		{
			"a duplicate without an earlier push", "dedup", `the push of "d" was answered as a duplicate`, 2,
			func(r *run) { r.op(2).Items[0].Duplicate = true },
			func(r *run) {
				r.add(history.Operation{Kind: history.Push, Outcome: history.Unknown, Items: pushed("d")}).Begin = 0
			},
		},
	})
}

func TestEveryStoredMessageWasPushed(t *testing.T) {
	t.Parallel()
	runBreaches(t, []breach{
		{
			"delivered but not stored", "unpushed", `"z" was delivered, but it is not in the log`, 7,
			func(r *run) { r.op(7).Items = delivered("d", "z") },
			func(r *run) { r.op(7).Items = delivered("d") },
		},
		{
			"stored but never pushed", "unpushed", `"d" is in the log at 4, but no client pushed it`, 5,
			func(r *run) { r.drop(2) },
			func(r *run) {
				r.add(history.Operation{Kind: history.Push, Outcome: history.Unknown, Items: []history.Item{{Partition: "p"}}}).Begin = 0
			},
		},
		{
			"a refused push without an id does not explain a message", "unpushed", `"d" is in the log`, 5,
			func(r *run) {
				r.op(2).Items, r.op(2).Outcome = []history.Item{{Partition: "p"}}, history.Refused
			},
			func(r *run) { r.op(2).Outcome = history.Unknown },
		},
	})
}

func TestPushesKeepTheirOrder(t *testing.T) {
	t.Parallel()
	swap := func(r *run, a, b string) {
		r.part().Log = logOf(a, b, "c", "d")
		r.op(3).Items = delivered(a, b)
	}
	last := func(r *run) { // stores d before c
		r.part().Log = logOf("a", "b", "d", "c")
		r.op(5).Items = delivered("d", "c")
		r.op(6).Items = append(acked("completed", "d"), acked("failed", "c")...)
		r.op(7).Items = delivered("c")
		r.op(8).Items[0].TransactionID = "c"
	}
	runBreaches(t, []breach{
		{
			"items of one push", "push-order", `"b" was pushed after "a", but it is stored at 1, before the latter at 2`, 1,
			func(r *run) { swap(r, "b", "a") }, func(r *run) { swap(r, "a", "b") },
		},
		{
			"one push after the other", "push-order", `"d" is stored at 3, before "c" at 4, but the push of the latter was answered 1s before`, 2, last,
			func(r *run) { r.op(2).Begin = 500 * time.Millisecond },
		},
		{
			"a delivery shows that a message was stored", "push-order", `"d" is stored at 3, before "c" at 4`, 2,
			func(r *run) {
				last(r)
				r.op(1).Outcome, r.op(2).Begin, r.op(2).End = history.Unknown, 21*time.Second, 22*time.Second
				r.op(5).Items, r.op(5).End = delivered("d", "c"), 20*time.Second
				r.op(6).Begin, r.op(6).End = 23*time.Second, 24*time.Second
				r.op(7).Begin, r.op(7).End = 25*time.Second, 26*time.Second
				r.op(8).Begin, r.op(8).End = 27*time.Second, 28*time.Second
			},
			func(r *run) { r.op(2).Begin = 19 * time.Second },
		},
		{
			"one push by SQL after the other", "push-order", `"d" is stored at 3, before "c" at 4, but the SQL push of the latter was committed 1s before`, 2,
			after(last, func(r *run) { r.op(1).Inbox, r.op(2).Inbox = true, true }),
			func(r *run) { r.op(2).Inbox = false },
		},
	})
}

func TestEveryGroupReceivesEveryMessage(t *testing.T) {
	t.Parallel()
	another := func(r *run) *check.Cursor {
		r.part().Cursors = append(r.part().Cursors, check.Cursor{Group: "h", FromStart: true, Committed: 4, Consumed: 4})
		return &r.part().Cursors[1]
	}
	follow := func(r *run, auto bool) {
		o := r.add(history.Operation{Kind: history.Pop, AutoAck: auto, Items: delivered("a", "b", "c", "d")})
		o.Group = "h"
	}
	extra := func(r *run) {
		r.add(history.Operation{Kind: history.Push, Items: pushed("e")})
		r.part().Log, r.part().LastSeq = logOf("a", "b", "c", "d", "e"), 5
	}
	runBreaches(t, []breach{
		{
			"a cursor passed a message without a delivery", "delivered", `"a" at 1 is before the cursor, at 4, but was never delivered`, 1,
			func(r *run) { another(r) }, func(r *run) { follow(r, true) },
		},
		{
			"a lost autoAck delivery excuses only one sequence of messages", "delivered skipped", `"d" at 4`, 2,
			func(r *run) {
				another(r)
				r.add(history.Operation{Kind: history.Pop, Outcome: history.Unknown, AutoAck: true}).Group = "h"
				r.add(history.Operation{Kind: history.Pop, AutoAck: true, Items: delivered("b", "c")}).Group = "h"
			},
			func(r *run) {
				r.add(history.Operation{Kind: history.Pop, Outcome: history.Unknown, AutoAck: true}).Group = "h"
			},
		},
		{
			"a lost autoAck delivery leaves out an expired message", "delivered", `"a" at 1`, 1,
			func(r *run) {
				r.part().ExpireAfter = time.Second
				r.state.Sweeps = []check.Sweep{{Queue: "q", Expired: 1}}
				h := another(r)
				h.Consumed, h.Dead, h.Expired = 3, []int64{2}, []check.Expiry{{Seq: 2, Age: time.Minute}}
			},
			func(r *run) {
				r.add(history.Operation{Kind: history.Pop, Outcome: history.Unknown, AutoAck: true}).Group = "h"
			},
		},
		{
			"lost by an autoAck pop of another partition", "delivered", `"a" at 1`, 1,
			func(r *run) {
				another(r)
				o := r.add(history.Operation{Kind: history.Pop, Outcome: history.Unknown, AutoAck: true, Partition: "other"})
				o.Group = "h"
			},
			func(r *run) { r.op(9).Partition = "p" },
		},
		{
			"a message is left after the drain", "delivered leftover", `"e" at 5 was never delivered: it is after the cursor, at 4`, 9, extra,
			func(r *run) { r.options.Undrained = true },
		},
		{
			"a delivered message is not completed by the drain", "leftover", "1 messages are left: the cursor is at 4, the log ends at 5", 0,
			after(extra, func(r *run) { r.add(history.Operation{Kind: history.Pop, LeaseID: "L4", Items: delivered("e")}) }),
			func(r *run) { r.options.Undrained = true },
		},
		{
			"no cursor in a partition", "delivered", `group "h" reads the whole queue, but has no cursor`, 1,
			func(r *run) { another(r).Missing = true }, func(r *run) { r.part().Cursors = r.part().Cursors[:1] },
		},
		{
			"a group misses a message before its first delivery", "delivered skipped", `"a" at 1`, 1,
			func(r *run) {
				another(r)
				r.add(history.Operation{Kind: history.Pop, AutoAck: true, Items: delivered("c", "d")}).Group = "h"
			},
			func(r *run) { r.part().Cursors[1].FromStart = false },
		},
	})
}
