package dispatch_test

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// inOneRound wakes the requests so that all of them are in one round. The requests join while an earlier round runs. The
// partitions become ready before that round ends.
func (b *harness) inOneRound(reqs []*queue.PopRequest, partitions ...int64) []<-chan answer {
	b.t.Helper()
	outs := make([]<-chan answer, len(reqs))
	for i, req := range reqs {
		outs[i] = b.begin(b.t.Context(), req)
		pending(b.t, outs[i])
	}
	hold := make(chan struct{})
	b.store.onPreflight = func([]queue.Probe, time.Duration) error {
		b.store.onPreflight = nil
		<-hold
		return nil
	}
	b.bus.Resync("start a round", events.Peer)
	synctest.Wait()
	for _, p := range partitions {
		b.ready(1, p, 1)
	}
	synctest.Wait()
	close(hold)
	return outs
}

func requests(n int, edit ...func(*queue.PopRequest)) []*queue.PopRequest {
	reqs := make([]*queue.PopRequest, n)
	for i := range reqs {
		reqs[i] = request(time.Hour)
		for _, e := range edit {
			e(reqs[i])
		}
	}
	return reqs
}

func TestEndOfALeaseWakesTheOtherRequestsOfTheRound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{})
		outs := b.inOneRound(requests(3), 1)
		got, _ := split(t, outs)
		require.Equal(t, 1, got)
		time.Sleep(leaseTime - time.Nanosecond)
		got, _ = split(t, outs)
		require.Zero(t, got)
		time.Sleep(time.Nanosecond)
		got, _ = split(t, outs)
		require.Equal(t, 1, got)
	})
}

// The client that got the message pops again. The end of its own lease wakes this second pop.
func TestEndOfALeaseWakesItsOwnClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{})
		outs := b.many(2)
		b.ready(1, 1, 1)
		got, _ := split(t, outs)
		require.Equal(t, 1, got)
		outs = append(outs, b.wait())
		require.Equal(t, 2, b.store.count(), "the target is known to be empty")
		time.Sleep(leaseTime)
		got, _ = split(t, outs)
		require.Equal(t, 1, got)
	})
}

// A claim with AutoAck may leave messages that are due now.
func TestMessagesAClaimLeavesGoToTheNextRequest(t *testing.T) {
	t.Parallel()
	autoAck := func(r *queue.PopRequest) { r.AutoAck = true }
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{})
		b.store.put(1, 1, 2, time.Hour) // three messages with the message of inOneRound
		outs := b.inOneRound(requests(5, autoAck), 1)
		got, waiting := split(t, outs)
		require.Equal(t, 3, got)
		require.Equal(t, 2, waiting)
	})
}

// An intent has two assigned partitions, and the first partition fills its batch.
func TestAssignedButUnclaimedPartitionGoesToTheNextRequest(t *testing.T) {
	t.Parallel()
	wide := func(r *queue.PopRequest) { r.Partitions = 2 }
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{})
		outs := b.inOneRound(requests(2, wide), 1, 2, 3)
		got, _ := split(t, outs)
		require.Equal(t, 2, got)
		delivered(t, b.begin(t.Context(), request(time.Hour)))
	})
}

// A preflight lists only a few of the due partitions. Requests that name partitions can take all listed partitions, in the same
// round as a request for any partition. More partitions may be due, so the group is not known to be empty.
func TestAPartlyProbedGroupIsNotKnownToBeEmpty(t *testing.T) {
	t.Parallel()
	instant := func(b *harness) {
		for p := int64(1); p <= 4; p++ {
			b.store.put(1, p, 1, time.Minute)
			b.bus.Ready([]queue.Ready{{Group: 1, Partition: p, In: time.Minute}}, events.Here)
		}
	}
	resync := func(b *harness) { b.resync(1, 2, 3, 4) }
	for name, c := range map[string]struct {
		wake    func(*harness)
		arrives bool // the last request arrives after the round
	}{
		"the request that gets the wake of the instant": {instant, false},
		"a request of the next round":                   {resync, false},
		"a request that arrives after an instant":       {instant, true},
		"a request that arrives after a resync":         {resync, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := run(t, &fakeStore{resolve: twoGroups}, oneWorker, func(s *settings) { s.smart.MaxIntentions = 3 })
				other := request(time.Hour)
				other.Queue = "others"
				reqs := []*queue.PopRequest{other, request(time.Hour), named("1"), named("2")}
				if !c.arrives {
					reqs = append(reqs, request(2*time.Hour)) // its deadline is the last
				}
				outs := b.startAll(reqs)
				release := b.holdNextRound()
				probed := 0
				b.store.onPreflight = func(probes []queue.Probe, _ time.Duration) error { probed = max(probed, len(probes)); return nil }
				b.ready(9, 1, 1) // the requests of group 1 join during this round
				synctest.Wait()
				c.wake(b)
				time.Sleep(time.Minute) // the instant of the partitions
				synctest.Wait()
				release()
				if c.arrives {
					synctest.Wait()
					outs = append(outs, b.begin(t.Context(), request(2*time.Hour)))
				}
				got, waiting := split(t, outs)
				require.Equal(t, 5, got)
				require.Zero(t, waiting)
				require.Equal(t, 3, probed, "the first round has the group and both names")
			})
		})
	}
}

// twoGroups resolves the queue "others" to group 9 and every other queue to group 1. The name of a partition is its id.
func twoGroups(req *queue.PopRequest) (queue.Target, bool, error) {
	target := queue.Target{Group: 1}
	if req.Queue == "others" {
		target.Group = 9
	}
	if req.Partition != nil {
		target.Partition, _ = strconv.ParseInt(*req.Partition, 10, 64)
	}
	return target, true, nil
}

// named returns a pop of one partition.
func named(partition string) *queue.PopRequest {
	req := request(time.Hour)
	req.Partition = &partition
	return req
}

// The database fails between the preflight and the claim. The assigned request gets the error, and
// the others probe again.
func TestFailedClaimLeavesItsPartitionToTheOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{})
		broken := &queue.Error{Code: queue.CodeUnavailable}
		b.store.onClaim = func([]queue.Assignment) error {
			b.store.onClaim = nil
			return broken
		}
		outs := b.inOneRound(requests(3), 1)
		synctest.Wait()
		var failed, got int
		for _, out := range outs {
			select {
			case a := <-out:
				if a.err != nil {
					require.ErrorIs(t, a.err, broken)
					failed++
				} else {
					got++
				}
			default:
			}
		}
		require.Equal(t, 1, failed)
		require.Equal(t, 1, got)
	})
}

// A client leaves between the preflight and the claim. It gets nothing, and another request gets the partition.
func TestAPartitionOfAClientThatLeftGoesToAnotherRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{})
		ctx, cancel := context.WithCancel(t.Context())
		// Its deadline is the earliest, so the plan serves it first.
		left := b.begin(ctx, request(time.Minute))
		pending(t, left)
		b.store.onFound = func(results []queue.ProbeResult) {
			if len(results[0].Candidates) > 0 {
				cancel()
			}
		}
		outs := b.inOneRound(requests(2), 1)
		got, _ := split(t, outs)
		require.ErrorIs(t, answered(t, left).err, context.Canceled)
		require.Equal(t, 1, got)
		require.Empty(t, b.store.leases())
	})
}

// Another consumer claims the partition before the round does. The request with the lost claim then makes a separate pop. The
// other requests of the round wake when the lease of the other consumer ends.
func TestALostClaimIsFollowedByAPop(t *testing.T) {
	t.Parallel()
	for name, other := range map[string]bool{"and finds another partition": true, "and finds nothing": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := run(t, &fakeStore{})
				b.store.onClaim = func([]queue.Assignment) error {
					b.store.onClaim = nil
					b.store.steal(1)
					if other {
						b.store.put(1, 2, 1, 0)
					}
					return nil
				}
				outs := b.inOneRound(requests(3), 1)
				got, waiting := split(t, outs)
				if other {
					require.Equal(t, 1, got)
				} else {
					require.Equal(t, 3, waiting)
				}
				time.Sleep(leaseTime)
				got, _ = split(t, outs)
				require.Positive(t, got, "the lease of the other consumer has ended")
			})
		})
	}
}

func TestErrorOfThePopAfterALostClaimIsTheAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{})
		out := b.wait()
		broken := &queue.Error{Code: queue.CodeUnavailable}
		b.store.onClaim = func([]queue.Assignment) error {
			b.store.steal(1)
			return nil
		}
		b.store.onPop = func(*queue.PopRequest) error { return broken }
		b.ready(1, 1, 1)
		require.ErrorIs(t, answered(t, out).err, broken)
	})
}
