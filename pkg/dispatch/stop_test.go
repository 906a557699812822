package dispatch_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

func TestStopAnswersEveryRequestAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{})
		outs := append(b.many(20), b.begin(context.WithoutCancel(t.Context()), tagged(time.Hour)))
		synctest.Wait()
		b.Stop()
		for _, out := range outs {
			a := answered(t, out)
			require.NoError(t, a.err)
			require.Empty(t, a.Messages)
			require.Zero(t, a.took)
		}
		require.Zero(t, b.Waiting())
		// A later request probes once and is answered.
		b.ready(1, 1, 1)
		delivered(t, b.begin(t.Context(), request(time.Hour)))
		require.Empty(t, answered(t, b.begin(t.Context(), request(time.Hour))).Messages)
	})
}

func TestRequestBeyondTheBoundIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{}, bound(3))
		outs := b.many(3)
		refused := <-b.begin(t.Context(), request(time.Hour))
		var coded *queue.Error
		require.ErrorAs(t, refused.err, &coded)
		require.Equal(t, queue.CodeOverloaded, coded.Code)
		require.Contains(t, []time.Duration{time.Second, 2 * time.Second, 3 * time.Second}, coded.RetryAfter)
		require.NoError(t, answered(t, b.begin(t.Context(), request(0))).err, "a pop without wait does not count")
		for p := range int64(3) {
			b.ready(1, p+1, 1)
		}
		got, _ := split(t, outs)
		require.Equal(t, 3, got)
		require.Zero(t, b.Waiting())
		b.wait()
	})
}

// The lease is released exactly once, for each kind of claim.
func TestLeaseOfAClientThatLeavesDuringItsClaimIsReleased(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		others int
		hook   func(store *fakeStore, leave func())
	}{
		"its first probe": {0, func(s *fakeStore, leave func()) {
			s.onPop = func(*queue.PopRequest) error { leave(); return nil }
		}},
		"in a direct claim": {0, func(s *fakeStore, leave func()) { s.onClaimed = leave }},
		"in a round":        {3, func(s *fakeStore, leave func()) { s.onClaimed = leave }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := &fakeStore{}
				b := run(t, store)
				ctx, leave := context.WithCancel(context.WithoutCancel(t.Context()))
				c.hook(store, func() { store.onClaimed = nil; leave() })
				if name == "its first probe" {
					store.put(1, 1, 1, 0)
				}
				outs := []<-chan answer{b.begin(ctx, request(time.Hour))}
				synctest.Wait()
				for range c.others { // the other requests leave too
					outs = append(outs, b.begin(ctx, request(time.Hour)))
					synctest.Wait()
				}
				if name != "its first probe" {
					b.ready(1, 1, 1)
				}
				for _, out := range outs {
					require.ErrorIs(t, answered(t, out).err, context.Canceled)
				}
				require.Len(t, store.leases(), 1)
			})
		})
	}
}

func TestClientThatLeavesWhileItWaitsTakesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{})
		ctx, leave := context.WithCancel(context.WithoutCancel(t.Context()))
		out := b.begin(ctx, request(time.Hour))
		stays := b.wait()
		leave()
		require.ErrorIs(t, answered(t, out).err, context.Canceled)
		require.Equal(t, 1, b.Waiting())
		b.ready(1, 1, 1)
		delivered(t, stays)
		require.Empty(t, b.store.leases())
	})
}

// A lease whose release failed ends when it expires.
func TestFailedReleaseIsLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{release: errors.New("away")})
		b.Release(t.Context(), &queue.Delivery{LeaseID: queue.NewID(), Messages: make([]queue.Message, 1)})
		require.Equal(t, 1, b.logs.FilterMessageSnippet("it will expire").Len())
		b.Release(t.Context(), &queue.Delivery{LeaseID: queue.NewID()})
		b.Release(t.Context(), &queue.Delivery{Messages: make([]queue.Message, 1)})
		require.Len(t, b.store.leases(), 1, "a delivery without messages or with AutoAck has no lease to release")
	})
}

// Every request of the round gets the error, and no request keeps waiting.
func TestFailedPreflightIsTheAnswerOfTheRound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{})
		broken := &queue.Error{Code: queue.CodeUnavailable}
		outs := b.many(2)
		b.store.onPreflight = func([]queue.Probe, time.Duration) error { return broken }
		b.resync(1)
		failed := 0
		for _, out := range outs { // the second request may have claimed directly
			if a := answered(t, out); a.err != nil {
				require.ErrorIs(t, a.err, broken)
				failed++
			}
		}
		require.Positive(t, failed)
	})
}

func TestStatusListsWaitingRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{}, unproven)
		b.many(2)
		b.begin(context.WithoutCancel(t.Context()), specific(time.Hour))
		b.begin(context.WithoutCancel(t.Context()), tagged(time.Minute))
		synctest.Wait()
		b.store.put(1, 4, 1, 30*time.Second)
		b.bus.Ready([]queue.Ready{{Group: 1, Partition: 4, In: 30 * time.Second}}, events.Here)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		status := b.Status()
		require.Equal(t, 4, status.Waiting)
		require.False(t, status.Truncated)
		require.Len(t, status.Groups, 3)
		first := status.Groups[0]
		require.Equal(t, "orders", first.Queue)
		require.Equal(t, 2, first.Waiting)
		require.Equal(t, 10*time.Second, first.Oldest)
		require.Equal(t, time.Hour-10*time.Second-250*time.Millisecond, first.Next)
		require.Equal(t, "ns", status.Groups[1].Namespace, "equal counts are sorted by name")
		require.Equal(t, "1", status.Groups[2].Partition)
		require.Equal(t, []queue.Target{{Group: 1}}, []queue.Target{status.Due[0].Target})
		require.Equal(t, 20*time.Second, status.Due[0].In)
		require.NotEmpty(t, status.Backoff)
		require.Positive(t, status.Backoff[0].EmptyProbes)
		require.Positive(t, status.Backoff[0].Delay)
	})
}

func TestWakesAreCountedBySourceAndOutcome(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{})
		outs := b.many(3)
		b.ready(1, 1, 1)
		split(t, outs)
		b.bus.Ready([]queue.Ready{{Group: 1, Partition: 2}}, events.Peer)
		synctest.Wait()
		b.bus.Resync("for the test", events.Peer)
		synctest.Wait()
		time.Sleep(leaseTime)
		split(t, outs)
		const wakes = "belfry_dispatch_wakes_total"
		require.InDelta(t, 1, b.labelled(wakes, "local", "delivered"), 0)
		require.Zero(t, b.labelled(wakes, "local", "spurious"))
		require.InDelta(t, 1, b.labelled(wakes, "notify", "spurious"), 0)
		require.InDelta(t, 2, b.labelled(wakes, "sweep", "spurious"), 0)
		require.InDelta(t, 1, b.labelled(wakes, "timer", "delivered"), 0, "the lease ended")
		require.InDelta(t, 1, b.labelled("belfry_dispatch_woken_total", "local"), 0)
		require.InDelta(t, 1, b.labelled("belfry_dispatch_woken_total", "notify"), 0)
		require.InDelta(t, 2, b.labelled("belfry_dispatch_woken_total", "sweep"), 0)
		require.InDelta(t, 1, b.value("belfry_dispatch_intents_waiting"), 0)
		require.InDelta(t, 2, b.value("belfry_smart_poll_intentions_viable_total"), 0)
		require.InDelta(t, 2, b.value("belfry_smart_poll_partition_assignments_total"), 0)
		require.Zero(t, b.value("belfry_smart_poll_double_assignment_errors_total"))
	})
}
