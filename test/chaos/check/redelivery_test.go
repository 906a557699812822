package check_test

import (
	"testing"
	"time"

	"github.com/belfry-mq/belfry/test/chaos/check"
	"github.com/belfry-mq/belfry/test/chaos/history"
)

// resume redrives d, a dead letter from before the seek, in operation 12. Operation 13 delivers d, and 14 completes
// it.
func resume(r *run) {
	replay(r)
	r.add(history.Operation{Kind: history.Redrive})
	r.add(history.Operation{Kind: history.Pop, LeaseID: "L5", Items: delivered("d")})
	r.add(history.Operation{Kind: history.Ack, LeaseID: "L5", Items: acked("completed", "d")})
	r.put("L5", 4)
	r.cursor().Dead = nil
}

// put records that a lease delivered redriven messages.
func (r *run) put(lease string, seqs ...int64) {
	r.state.Redelivered = append(r.state.Redelivered, check.Redelivered{Queue: "q", Partition: "p", Group: "g", LeaseID: lease, Seqs: seqs})
}

// at sets the begin and the end of an operation.
func (r *run) at(id int, begin, end time.Duration) { r.op(id).Begin, r.op(id).End = begin, end }

func TestSeeksDoNotAffectRedrivenMessages(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	runBreaches(t, []breach{
		{
			"the redriven message is never delivered", "dead", `"d" at 4 was dead-lettered and redriven, but it was never delivered again`, 8,
			func(r *run) {
				resume(r)
				r.drop(13)
				r.drop(14)
			},
			func(r *run) { r.cursor().Dead, r.op(12).Outcome = []int64{4}, history.Unknown },
		},
		{
			"a delivery from the log is not a redelivery", "dead", `"d" at 4 was dead-lettered and redriven, but it was never delivered again`, 8,
			func(r *run) {
				resume(r)
				r.state.Redelivered = nil
				r.at(12, 16100*ms, 16300*ms)
				r.drop(13)
				r.drop(14)
			},
			func(r *run) {
				r.op(10).Items, r.op(11).Items = delivered("d"), acked("completed", "d")
				r.put("L4", 4)
				r.add(history.Operation{Kind: history.Pop, LeaseID: "L5", Items: delivered("a", "b", "c", "d")})
				r.add(history.Operation{Kind: history.Ack, LeaseID: "L5", Items: acked("completed", "a", "b", "c", "d")})
			},
		},
		{
			"a completed redelivery is delivered again", "again", `"d" at 4 was redelivered, but operation 14 settled it, answered 1s before`, 15,
			func(r *run) {
				resume(r)
				r.add(history.Operation{Kind: history.Pop, LeaseID: "L6", Items: delivered("d")})
				r.leasePeriods(1, 2, "L6")
				r.put("L6", 4)
			},
			func(r *run) { r.op(15).Begin = 26500 * ms },
		},
		{
			"a completed redelivery is delivered again without another redrive", "again", "no redrive followed", 15,
			func(r *run) {
				resume(r)
				r.add(history.Operation{Kind: history.Pop, LeaseID: "L6", Items: delivered("d")})
				r.leasePeriods(1, 2, "L6")
				r.put("L6", 4)
			},
			func(r *run) {
				r.add(history.Operation{Kind: history.Redrive})
				r.at(16, 27100*ms, 27900*ms)
			},
		},
		{
			"a redelivery without a redrive", "again", "no redrive of this dead letter can have caused this", 13,
			after(resume, func(r *run) { r.at(12, 30*time.Second, 31*time.Second) }),
			func(r *run) { r.at(12, 22*time.Second, 23*time.Second) },
		},
		{
			"a redriven message is delivered with a message of the log", "order again dead", `the delivery has "d" at 4, which was dead-lettered and redriven, together with "c" at 3`, 13,
			after(resume, func(r *run) { r.op(13).Items = delivered("c", "d") }),
			func(r *run) { r.op(13).Items = delivered("d") },
		},
		{
			"the ack of a redriven message moves the cursor", "skipped delivered", `the delivery starts with "b" at 2, but "a" at 1`, 10,
			func(r *run) {
				resume(r)
				for i := range 3 {
					begin := 17100*ms + time.Duration(i)*200*ms
					r.at(12+i, begin, begin+100*ms)
				}
				r.op(10).Items, r.op(11).Items = delivered("b", "c", "d"), acked("completed", "b", "c", "d")
			},
			func(r *run) {
				r.op(10).Items, r.op(11).Items = delivered("a", "b", "c", "d"), acked("completed", "a", "b", "c", "d")
			},
		},
		{
			"a message completed in the log is delivered from the log again", "again dead", `"d" at 4 was delivered, but the message at 4 was completed by operation 11`, 13,
			after(resume, func(r *run) { r.state.Redelivered = nil }),
			func(r *run) { r.put("L5", 4) },
		},
		{
			"the lease of a redelivery outlives a seek", "fenced", "was accepted under lease L5, but the seek of operation 15 had ended the lease", 16,
			func(r *run) {
				resume(r)
				r.add(history.Operation{Kind: history.Seek, Target: history.ToEnd})
				r.add(history.Operation{Kind: history.Ack, LeaseID: "L5", Items: acked("completed", "d")})
				r.state.Moves = append(r.state.Moves, move(check.Sought, 1, 4, 4, 28500*ms))
			},
			func(r *run) { r.op(16).Items[0].Accepted = false },
		},
		{
			"a waiting pop is not woken", "stuck", "the pop came back empty after 6.5s", 15,
			func(r *run) {
				resume(r)
				r.options.WakeBound, r.options.LeaseDuration = 2*time.Second, time.Second
				r.at(13, 31*time.Second, 32*time.Second)
				r.at(14, 33*time.Second, 34*time.Second)
				r.add(history.Operation{Kind: history.Pop, Wait: time.Minute})
				r.at(15, 23500*ms, 30*time.Second)
			},
			func(r *run) { r.op(15).End = 25 * time.Second },
		},
	})
}
