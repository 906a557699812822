package dispatch_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// The ticket was taken before the probe, and the announcement removes the observation of the probe.
func TestAnnouncementDuringTheProbeIsNotLost(t *testing.T) {
	t.Parallel()
	for name, announce := range map[string]func(*harness, queue.Ready){
		"a commit of this instance":    func(b *harness, r queue.Ready) { b.bus.Ready([]queue.Ready{r}, events.Here) },
		"a commit of another instance": func(b *harness, r queue.Ready) { b.bus.Ready([]queue.Ready{r}, events.Peer) },
		"a resync":                     func(b *harness, _ queue.Ready) { b.bus.Resync("reconnected", events.Peer) },
	} {
		for _, req := range []*queue.PopRequest{request(time.Hour), specific(time.Hour)} {
			t.Run(fmt.Sprintf("%s, specific %t", name, req.Partition != nil), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					var b *harness
					store := &fakeStore{}
					store.pop = func(_ context.Context, req *queue.PopRequest) (queue.Delivery, error) {
						// The snapshot of this probe is older than the commit.
						store.put(1, 1, 1, 0)
						announce(b, queue.Ready{Group: 1, Partition: 1})
						return queue.Delivery{Queue: req.Queue}, nil
					}
					b = run(t, store)
					a := delivered(t, b.begin(t.Context(), req))
					require.Zero(t, a.took)
					require.Equal(t, calls{pops: 1, claims: 1}, store.calls())
				})
			})
		}
	}
}

func TestAnnouncementDuringThePreflightIsNotLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		b := run(t, store)
		outs := b.many(2)
		store.onFound = func([]queue.ProbeResult) {
			store.onFound = nil
			b.ready(1, 1, 1)
		}
		b.resync()
		got, _ := split(t, outs)
		require.Equal(t, 1, got)
		require.Equal(t, 1, store.calls().pops)
		require.Greater(t, store.probes[0][0].Want, 1, "one more than wanted")
	})
}

func TestAnnouncementDuringADirectClaimIsNotLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		b := run(t, store)
		out := b.wait()
		store.onClaimed = func() {
			store.onClaimed = nil
			b.ready(1, 1, 1)
		}
		b.bus.Ready([]queue.Ready{{Group: 1, Partition: 1}}, events.Here) // of a message that was claimed already
		delivered(t, out)
		require.Equal(t, calls{pops: 1, preflights: 0, claims: 2}, store.calls())
	})
}

func TestThousandWaitersAndOneMessageAreOneProbe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		b := run(t, store)
		outs := b.many(1000)
		require.Equal(t, 1000, b.Waiting())
		before := store.calls()
		b.ready(1, 1, 1)
		got, waiting := split(t, outs)
		require.Equal(t, 1, got)
		require.Equal(t, 999, waiting)
		require.Equal(t, 999, b.Waiting())
		after := store.calls()
		require.Equal(t, calls{pops: before.pops, preflights: before.preflights, claims: before.claims + 1}, after)
		require.InDelta(t, 1, b.labelled("belfry_dispatch_woken_total", "local"), 0)

		// The others still wait: each message reaches one of them.
		for i := range 20 {
			b.ready(1, int64(i+2), 1)
		}
		got, _ = split(t, outs)
		require.Equal(t, 20, got)
	})
}

func TestEachPartitionOfACommitReachesARequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		b := run(t, store)
		outs := b.many(50)
		var ready []queue.Ready
		for p := int64(1); p <= 30; p++ {
			store.put(1, p, 1, 0)
			ready = append(ready, queue.Ready{Group: 1, Partition: p})
		}
		b.bus.Ready(ready, events.Peer)
		got, waiting := split(t, outs)
		require.Equal(t, 30, got)
		require.Equal(t, 20, waiting)
		require.Zero(t, b.value("belfry_smart_poll_double_assignment_errors_total"))
	})
}

func TestOtherTargetsDoNotWake(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		b := run(t, store)
		anyone, one := b.wait(), b.begin(t.Context(), specific(time.Hour))
		pending(t, one)
		before := store.calls()
		b.ready(2, 1, 1) // another group
		pending(t, anyone)
		require.Equal(t, before, store.calls())

		b.ready(1, 7, 1) // another partition
		delivered(t, anyone)
		pending(t, one)
		b.ready(1, 1, 1)
		delivered(t, one)
	})
}

// No request probes before that instant.
func TestFutureReadyWakesAtItsInstant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		b := run(t, store)
		outs := b.many(3)
		before := store.calls()
		store.put(1, 1, 1, 7*time.Second)
		b.bus.Ready([]queue.Ready{{Group: 1, Partition: 1, In: 7 * time.Second}}, events.Here)
		time.Sleep(7*time.Second - time.Nanosecond)
		_, waiting := split(t, outs)
		require.Equal(t, 3, waiting)
		require.Equal(t, before, store.calls(), "no probe before the instant")
		time.Sleep(time.Nanosecond)
		got, _ := split(t, outs)
		require.Equal(t, 1, got)
		require.Equal(t, calls{pops: before.pops, preflights: before.preflights + 1, claims: 1}, store.calls())
		require.InDelta(t, 1, b.value("belfry_dispatch_woken_by_timer_total"), 0)
	})
}

// A probe learns when the next message is due: the end of a delay, a window or a lease.
func TestNextInOfAProbeWakesAtItsInstant(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*harness) []<-chan answer{
		"the first probe": func(b *harness) []<-chan answer {
			b.store.put(1, 1, 1, time.Minute)
			return b.many(2)
		},
		"a later probe": func(b *harness) []<-chan answer {
			outs := b.many(2)
			b.store.put(1, 1, 1, time.Minute)
			b.bus.Ready([]queue.Ready{{Group: 1, Partition: 1}}, events.Peer) // a peer sends no instant
			return outs
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := &fakeStore{}
				b := run(t, store)
				outs := start(b)
				synctest.Wait()
				before := store.calls()
				time.Sleep(time.Minute - time.Nanosecond)
				_, waiting := split(t, outs)
				require.Equal(t, 2, waiting)
				require.Equal(t, before, store.calls())
				time.Sleep(time.Nanosecond)
				got, _ := split(t, outs)
				require.Equal(t, 1, got)
				time.Sleep(leaseTime) // no ack
				got, _ = split(t, outs)
				require.Equal(t, 1, got, "the end of the lease is an instant too")
			})
		})
	}
}
