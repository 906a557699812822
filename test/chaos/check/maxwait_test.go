package check_test

import (
	"testing"
	"time"

	"github.com/belfry-mq/belfry/test/chaos/check"
	"github.com/belfry-mq/belfry/test/chaos/history"
)

// In this test the queue has maxWaitTimeSeconds 5.
func TestSweepsDeleteMessagesThatWaitedTooLong(t *testing.T) {
	t.Parallel()
	wait := func(r *run) {
		without(r, check.Swept)
		r.part().Retention, r.part().MaxWait = 0, 5*time.Second
		r.state.Sweeps[0] = check.Sweep{Queue: "q", Evicted: 1, Unread: 1}
	}
	unread := func(r *run) {
		r.add(history.Operation{Kind: history.Push, Items: pushed("x")}).Queue = "u"
		r.state.Partitions = append(r.state.Partitions, check.Partition{
			Queue: "u", Name: "p", LastSeq: 1, Log: logOf("x"), MaxWait: 5 * time.Second,
		})
	}
	runBreaches(t, []breach{
		{
			"too early", "deleted", `"c" at 3 was deleted by a sweep at the age of 4s`, 1,
			after(wait, func(r *run) { r.part().Deleted[0].Age = 4 * time.Second }),
			func(r *run) { r.part().Deleted[0].Age = 5 * time.Second },
		},
		{
			"every group has read it", "deleted", `"c" at 3 was deleted by a sweep as waiting too long, but every group had passed it`, 1,
			after(wait, func(r *run) { r.part().Deleted[0].Unread, r.state.Sweeps[0].Unread = false, 0 }),
			func(r *run) { r.part().Deleted[0].Unread, r.state.Sweeps[0].Unread = true, 1 },
		},
		{
			"while a lease holds it", "deleted", `"c" at 3 was deleted by a sweep while a lease held it`, 1,
			after(wait, func(r *run) { r.part().Deleted[0].Held = true }),
			func(r *run) { r.part().Deleted[0].Held = false },
		},
		{
			"a group skips a message that has not waited long enough", "skipped", `the delivery starts with "d" at 4, but "c" at 3`, 5,
			after(wait, func(r *run) { r.part().MaxWait, r.part().Deleted[0].Age = 10*time.Second, 10*time.Second }),
			func(r *run) { r.part().MaxWait = 8 * time.Second },
		},
		{
			"a group skips a message that is kept", "delivered", `"c" at 3 is before the cursor, at 4, but was never delivered`, 1,
			after(wait, func(r *run) { r.part().Log, r.part().Deleted, r.state.Sweeps = logOf("a", "b", "c", "d"), nil, nil }),
			func(r *run) { wait(r) },
		},
		{
			"a group skips a message that no lease holds any longer", "delivered", `"c" at 3 is before the cursor, at 4, but was never delivered`, 1,
			func(r *run) {
				wait(r)
				r.part().Log, r.part().Deleted, r.state.Sweeps = logOf("a", "b", "c", "d"), nil, nil
				r.add(history.Operation{Kind: history.Pop, LeaseID: "L4", Items: delivered("a", "b", "c", "d")}).Group = "h"
				r.add(history.Operation{Kind: history.Ack, LeaseID: "L4", Items: acked("completed", "a", "b", "c", "d")}).Group = "h"
				r.part().Cursors = append(r.part().Cursors, check.Cursor{Group: "h", FromStart: true, Committed: 4, Consumed: 4})
				r.at(9, 3100*time.Millisecond, 3200*time.Millisecond)
				r.at(10, 3300*time.Millisecond, 3400*time.Millisecond)
				r.options.LeaseDuration = time.Second
			},
			func(r *run) { r.options.LeaseDuration = 2 * time.Second },
		},
		{
			"counted under another option", "swept", "1 messages were deleted for waiting too long, but the counters show 0", 0,
			after(wait, func(r *run) { r.state.Sweeps[0] = check.Sweep{Queue: "q", Retention: 1, Unread: 1} }),
			func(r *run) { r.state.Sweeps[0] = check.Sweep{Queue: "q", Evicted: 1, Unread: 1} },
		},
		{
			"a message without readers stays after the drain", "leftover", "after the drain 1 messages are left in a partition without groups", 0, unread,
			func(r *run) {
				part := &r.state.Partitions[1]
				part.Deleted = []check.Deletion{{Message: part.Log[0], How: check.Swept, Age: 5 * time.Second, Unread: true}}
				part.Log = nil
				r.state.Sweeps = []check.Sweep{{Queue: "u", Evicted: 1, Unread: 1}}
			},
		},
		{
			"a message without readers may stay if the queue has no maxWaitTimeSeconds", "leftover", "after the drain 1 messages are left in a partition without groups", 0, unread,
			func(r *run) { r.state.Partitions[1].MaxWait = 0 },
		},
	})
}
