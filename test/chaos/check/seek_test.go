package check_test

import (
	"slices"
	"testing"
	"time"

	"github.com/belfry-mq/belfry/test/chaos/check"
	"github.com/belfry-mq/belfry/test/chaos/history"
)

const soughtAt = 16500 * time.Millisecond

func move(how string, groupID, from, to int64, at time.Duration) check.Move {
	return check.Move{Queue: "q", Partition: "p", Group: "g", GroupID: groupID, How: how, From: from, To: to, At: at}
}

// leasePeriods adds leases of a group after a number of moves.
func (r *run) leasePeriods(groupID int64, moves int, leases ...string) {
	for _, lease := range leases {
		from := time.Unix(int64(len(r.state.LeasePeriods)), 0)
		r.state.LeasePeriods = append(r.state.LeasePeriods, check.LeasePeriod{
			Queue: "q", Partition: "p", Group: "g", LeaseID: lease, From: from, Until: from.Add(time.Second), Moves: moves, GroupID: groupID,
		})
	}
}

// replay seeks the group back to the beginning after the story, in operation 9. The group receives all messages again
// in 10 and completes them in 11.
func replay(r *run) {
	r.add(history.Operation{Kind: history.Seek, Target: history.ToBeginning})
	r.add(history.Operation{Kind: history.Pop, LeaseID: "L4", Items: delivered("a", "b", "c", "d")})
	r.add(history.Operation{Kind: history.Ack, LeaseID: "L4", Items: acked("completed", "a", "b", "c", "d")})
	r.state.Moves = []check.Move{move(check.Joined, 1, 0, 0, 0), move(check.Sought, 1, 4, 0, soughtAt)}
	r.leasePeriods(1, 1, "L1", "L2", "L3")
	r.leasePeriods(1, 2, "L4", "L5")
	r.cursor().Consumed = 8
}

func TestSeekBeginsANewGeneration(t *testing.T) {
	t.Parallel()
	again := func(r *run) {
		replay(r)
		r.add(history.Operation{Kind: history.Pop, LeaseID: "L5", Items: delivered("a")})
	}
	runBreaches(t, []breach{
		{
			"the messages are not delivered again", "delivered", `"a" at 1 is before the cursor, at 4, but was never delivered`, 1,
			func(r *run) {
				replay(r)
				r.drop(10)
				r.drop(11)
			},
			func(r *run) { r.state.Moves[1].To, r.op(9).Target = 4, history.ToEnd },
		},
		{
			"the delivery begins after the target", "skipped delivered", `the delivery starts with "b" at 2, but "a" at 1`, 10,
			after(replay, func(r *run) { r.op(10).Items = delivered("b", "c", "d") }),
			func(r *run) { r.op(10).Items = delivered("a", "b", "c", "d") },
		},
		{
			"a message completed after the seek is delivered again", "again", `"a" at 1 was delivered, but the message at 4 was completed by operation 11`, 12, again,
			func(r *run) { r.op(12).Begin = 20500 * time.Millisecond },
		},
		{
			"a message completed before the seek was delivered again before it", "again order", `"a" at 1 was delivered, but the message at 3 was completed by operation 6`, 7,
			after(replay, func(r *run) { r.op(7).Items = delivered("a", "d") }),
			func(r *run) { r.op(7).Items = delivered("d") },
		},
		{
			"the cursor passed an unsettled message before the seek", "skipped", `in the end of generation 0, joined at 0, but "c" at 3 was neither`, 0,
			func(r *run) {
				replay(r)
				r.op(6).Items = acked("failed", "d")
				r.op(5).Items, r.op(7).Items = delivered("c", "d"), delivered("c", "d")
			},
			func(r *run) { r.state.Moves[1].From = 2 },
		},
		{
			"a dead letter is not delivered again", "skipped delivered", `"d" at 4 was neither completed, consumed nor dead-lettered`, 0,
			after(replay, func(r *run) {
				r.op(10).Items, r.op(11).Items = delivered("a", "b", "c"), acked("completed", "a", "b", "c")
			}),
			func(r *run) {
				r.op(10).Items, r.op(11).Items = delivered("a", "b", "c", "d"), acked("completed", "a", "b", "c", "d")
			},
		},
		{
			"a seek back still skips a dead letter", "seek", "moved the cursor back from 4 to 0, but the cursor still skips 1 dead letters", 0,
			after(replay, func(r *run) { r.state.Moves[1].Skip = []int64{4} }),
			func(r *run) { r.state.Moves[1].Skip = nil },
		},
	})
}

func TestSeekMovesTheCursorToItsTarget(t *testing.T) {
	t.Parallel()
	dated := func(r *run) {
		replay(r)
		for i := range r.part().Log {
			r.part().Log[i].CreatedAt = time.Unix(int64(100+i), 0)
		}
		r.state.Moves[1].To = 1
		r.op(9).Target = time.Unix(101, 0).UTC().Format(time.RFC3339Nano)
		r.op(10).Items, r.op(11).Items = delivered("b", "c", "d"), acked("completed", "b", "c", "d")
	}
	end := func(r *run) {
		replay(r)
		r.drop(10)
		r.drop(11)
		r.state.Moves[1].To, r.op(9).Target = 3, history.ToEnd
		r.add(history.Operation{Kind: history.Pop, LeaseID: "L4", Items: delivered("d")})
		r.add(history.Operation{Kind: history.Ack, LeaseID: "L4", Items: acked("completed", "d")})
	}
	runBreaches(t, []breach{
		{
			"a seek does not move the cursor to its time", "seek", `the seek to "1970-01-01T00:01:41Z" was answered with success, but the cursor was not moved there`, 9, dated,
			func(r *run) { r.op(9).Target = time.Unix(100, 0).UTC().Format(time.RFC3339Nano) },
		},
		{
			"a seek to the end does not move the cursor to the end", "seek", `the seek to "end" was answered with success, but the cursor was not moved there`, 9, end,
			func(r *run) { r.op(9).Begin = 2500 * time.Millisecond },
		},
		{
			"a seek moves the cursor beyond the last message", "seek", `the seek to "end" was answered with success, but the cursor was not moved there`, 9,
			func(r *run) {
				end(r)
				r.state.Moves[1].To = 4
				r.op(2).Begin, r.op(2).End = 18*time.Second, 19*time.Second
				r.op(2).Outcome = history.Unknown
			},
			func(r *run) { r.op(2).Begin = 17 * time.Second },
		},
		{
			"a seek does not move the cursor", "seek", `the seek to "beginning" was answered with success, but the cursor was not moved`, 9,
			func(r *run) {
				replay(r)
				r.drop(10)
				r.drop(11)
				r.state.Moves = r.state.Moves[:1]
				r.cursor().Consumed = 4
			},
			func(r *run) { r.op(9).Outcome = history.Unknown },
		},
		{
			"a seek moves a cursor of another partition", "seek", "the cursor was moved by a seek from 4 to 0, but no client requested this", 0,
			after(replay, func(r *run) { r.op(9).Partition = "other" }),
			func(r *run) { r.op(9).Partition = "p" },
		},
		{
			"a cursor moves back without a seek", "cursor again counts seek", "the cursor moved back from 4 to 0 without a seek", 0,
			after(replay, func(r *run) { r.state.Moves[1].How = check.Fell }),
			func(r *run) { r.state.Moves[1].How = check.Sought },
		},
		{
			"an ack under an earlier lease is accepted", "fenced", `the ack of "d" at 4 was accepted under lease L3, but the seek of operation 9 had ended the lease 1s before`, 12,
			func(r *run) {
				replay(r)
				one := r.add(history.Operation{Kind: history.Ack, LeaseID: "L3", Items: acked("completed", "d")})
				one.Begin, one.End = 18*time.Second, 19*time.Second
			},
			func(r *run) { r.op(12).Begin = 16800 * time.Millisecond },
		},
		{
			"a waiting pop is not woken", "stuck", "the pop came back empty after 7s", 12,
			func(r *run) {
				replay(r)
				r.options.WakeBound, r.options.LeaseDuration = 2*time.Second, time.Second
				one := r.add(history.Operation{Kind: history.Pop, Wait: time.Minute})
				one.Begin, one.End = 18*time.Second, 25*time.Second
				r.op(10).Begin, r.op(10).End = 26*time.Second, 27*time.Second
				r.op(11).Begin, r.op(11).End = 28*time.Second, 29*time.Second
			},
			func(r *run) { r.op(12).End = 19500 * time.Millisecond },
		},
	})
}

// rejoin deletes the group after the story, in operation 9. The next pop (10) creates the group again and receives
// all messages, and 11 completes them.
func rejoin(r *run) {
	replay(r)
	r.op(9).Kind, r.op(9).Target = history.DeleteGroup, ""
	r.state.Moves[1] = move(check.Joined, 2, 0, 0, 18500*time.Millisecond)
	r.state.LeasePeriods = slices.DeleteFunc(r.state.LeasePeriods, func(t check.LeasePeriod) bool { return t.LeaseID > "L3" })
	r.leasePeriods(2, 1, "L4", "L5")
	r.cursor().Dead, r.cursor().Consumed = nil, 4
}

func TestDeletedGroupJoinsAsANewGroup(t *testing.T) {
	t.Parallel()
	runBreaches(t, []breach{
		{
			"the old group continues", "rejoined delivered again", "the delivery is to the group that operation 9 had deleted 1s before", 10,
			after(rejoin, func(r *run) { r.state.LeasePeriods[3].GroupID = 1 }),
			func(r *run) { r.state.LeasePeriods[3].GroupID = 2 },
		},
		{
			"two leases overlap", "lease delivered again rejoined", "by the database's clock lease L4 was given 1m0s before lease L3 ended", 10,
			func(r *run) {
				rejoin(r)
				r.state.LeasePeriods[2].Until = r.state.LeasePeriods[3].From.Add(time.Minute)
				r.state.LeasePeriods[3].GroupID = 1
			},
			func(r *run) { r.state.LeasePeriods[3].GroupID = 2 },
		},
		{
			"it begins at the old cursor", "rejoined", "the group was created again and begins at 2", 9,
			func(r *run) {
				rejoin(r)
				r.state.Moves[1].To = 2
				r.op(10).Items, r.op(11).Items = delivered("c", "d"), acked("completed", "c", "d")
			},
			func(r *run) {
				r.state.Moves[1].To = 0
				r.op(10).Items, r.op(11).Items = delivered("a", "b", "c", "d"), acked("completed", "a", "b", "c", "d")
			},
		},
		{
			"it does not receive all messages", "skipped delivered", `the delivery starts with "c" at 3, but "a" at 1`, 10,
			after(rejoin, func(r *run) { r.op(10).Items = delivered("c", "d") }),
			func(r *run) { r.op(10).Items = delivered("a", "b", "c", "d") },
		},
		{
			"it inherits a dead letter", "dead", `"d" at 4 is a dead letter, but no ack can have caused this`, 0,
			after(rejoin, func(r *run) { r.cursor().Dead = []int64{4} }),
			func(r *run) { r.cursor().Dead = nil },
		},
		{
			"an ack under the lease of the deleted group is accepted", "fenced", "under lease L3, but the delete-group of operation 9 had ended the lease", 12,
			after(rejoin, func(r *run) {
				r.add(history.Operation{Kind: history.Ack, LeaseID: "L3", Items: acked("completed", "d")})
			}),
			func(r *run) { r.op(12).Items[0].Accepted = false },
		},
	})
}
