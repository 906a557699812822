package dispatch_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// brought is a delivery that a push claimed.
func brought() queue.Delivery {
	return queue.Delivery{LeaseID: queue.NewID(), Messages: make([]queue.Message, 1), Partitions: 1}
}

// groupsByName resolves the groups "1" to "9" to their numbers.
func groupsByName(req *queue.PopRequest) (queue.Target, bool, error) {
	target := queue.Target{Group: int64(req.Group[0] - '0')}
	if req.Partition != nil {
		target.Partition = 1
	}
	return target, true, nil
}

func inGroup(req *queue.PopRequest, group string) *queue.PopRequest {
	req.Group = group
	return req
}

func TestHandoffIsTheWholeWakeUp(t *testing.T) {
	t.Parallel()
	for name, req := range map[string]*queue.PopRequest{"any": request(time.Hour), "specific": specific(time.Hour)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := &fakeStore{}
				b := run(t, store)
				out := b.begin(t.Context(), req)
				pending(t, out)
				offers := b.intents.Handoffs("orders", "1")
				require.Len(t, offers, 1)
				require.Equal(t, queue.Assignment{Request: req, Target: targetOf(req)}, offers[0].Assignment)
				d := brought()
				require.True(t, offers[0].Take(d))
				require.Equal(t, d.LeaseID, delivered(t, out).LeaseID)
				require.Equal(t, calls{pops: 1}, store.calls(), "its first look was the only one")
				require.InDelta(t, 1, b.labelled("belfry_dispatch_wakes_total", "handoff", "delivered"), 0)
				require.Empty(t, b.intents.Handoffs("orders", "1"))
			})
		})
	}
}

// Who cannot be sure to take what is claimed, or shares its target, is left to
// the rounds.
func TestWhoGetsNoHandoff(t *testing.T) {
	t.Parallel()
	autoAck := request(time.Hour)
	autoAck.AutoAck = true
	many := make([]*queue.PopRequest, 5)
	for i := range many {
		many[i] = inGroup(request(time.Hour), string(rune('1'+i)))
	}
	for name, waiting := range map[string][]*queue.PopRequest{
		"nobody waits":                    nil,
		"autoAck":                         {inGroup(autoAck, "1")},
		"two wait for the same":           {inGroup(request(time.Hour), "1"), inGroup(request(time.Hour), "1")},
		"another partition":               {inGroup(other(time.Hour), "1")},
		"more groups than ride on a push": many,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := run(t, &fakeStore{resolve: groupsByName, pop: nothing})
				for _, req := range waiting {
					pending(t, b.begin(t.Context(), req))
				}
				require.Empty(t, b.intents.Handoffs("orders", "1"))
				require.Empty(t, b.intents.Handoffs("bills", "1"))
			})
		})
	}
}

func other(wait time.Duration) *queue.PopRequest {
	req, partition := request(wait), "2"
	req.Partition = &partition
	return req
}

func nothing(context.Context, *queue.PopRequest) (queue.Delivery, error) {
	return queue.Delivery{}, nil
}

func TestHandoffsOfSeveralGroups(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{resolve: groupsByName, pop: nothing})
		anyOut := b.begin(t.Context(), inGroup(request(time.Hour), "1"))
		pending(t, anyOut)
		specificOut := b.begin(t.Context(), inGroup(specific(time.Hour), "2"))
		pending(t, specificOut)
		offers := b.intents.Handoffs("orders", "1")
		require.Len(t, offers, 2)
		require.Equal(t, []int64{2, 1}, []int64{offers[0].Target.Group, offers[1].Target.Group}, "who wants just this one comes first")
		require.Empty(t, b.intents.Handoffs("orders", "1"), "they are offered already")
		require.True(t, offers[1].Take(brought()))
		delivered(t, anyOut)
		pending(t, specificOut)
		require.False(t, offers[0].Take(queue.Delivery{}))
		pending(t, specificOut)
	})
}

// A request for which a push claimed in vain, because its messages are not due
// yet, goes on waiting as if nothing had happened, and is not offered again.
func TestHandoffInVain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		b := run(t, store)
		out := b.wait()
		require.False(t, b.intents.Handoffs("orders", "1")[0].Take(queue.Delivery{}))
		pending(t, out)
		require.Empty(t, b.intents.Handoffs("orders", "1"))
		store.put(1, 1, 1, time.Minute)
		b.bus.Ready([]queue.Ready{{Group: 1, Partition: 1, In: time.Minute}}, events.Here)
		pending(t, out)
		require.Equal(t, calls{pops: 1}, store.calls())
		time.Sleep(time.Minute)
		delivered(t, out)
	})
}

// What is claimed for a request that has gone on meanwhile is not taken, so that
// the store releases it.
func TestHandoffToOneThatHasGoneOn(t *testing.T) {
	t.Parallel()
	for name, wake := range map[string]func(b *bench, leave context.CancelFunc){
		"it found something else":     func(b *bench, _ context.CancelFunc) { b.ready(1, 2, 1) },
		"it looked in vain":           func(b *bench, _ context.CancelFunc) { b.bus.Resync("a doubt", events.Peer) },
		"its client left":             func(_ *bench, leave context.CancelFunc) { leave() },
		"its time was up":             nil,
		"the server is being stopped": func(b *bench, _ context.CancelFunc) { b.Stop() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := run(t, &fakeStore{})
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				b.begin(ctx, request(time.Hour))
				synctest.Wait()
				offer := b.intents.Handoffs("orders", "1")[0]
				if wake == nil {
					time.Sleep(time.Hour)
				} else {
					wake(b, leave)
				}
				synctest.Wait()
				require.False(t, offer.Take(brought()))
			})
		})
	}
}

// What was handed over is not lost to whatever happens at the same time.
func TestHandedAtTheSameTime(t *testing.T) {
	t.Parallel()
	for name, wake := range map[string]func(b *bench){
		"a wake-up": func(b *bench) { b.bus.Resync("a doubt", events.Peer) },
		"the stop":  func(b *bench) { b.Stop() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := run(t, &fakeStore{})
				out := b.wait()
				offer := b.intents.Handoffs("orders", "1")[0]
				d := brought()
				require.True(t, offer.Take(d))
				wake(b)
				require.Equal(t, d.LeaseID, delivered(t, out).LeaseID)
			})
		})
	}
}

func TestHandedToAClientThatLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		b := run(t, store)
		ctx, leave := context.WithCancel(t.Context())
		out := b.begin(ctx, request(time.Hour))
		pending(t, out)
		d := brought()
		require.True(t, b.intents.Handoffs("orders", "1")[0].Take(d))
		leave()
		require.ErrorIs(t, settled(t, out).err, context.Canceled)
		require.Equal(t, []queue.ID{d.LeaseID}, store.leases())
	})
}
