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

// claimed is a delivery that a push claimed.
func claimed() queue.Delivery {
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

func TestHandoffNeedsNoProbe(t *testing.T) {
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
				d := claimed()
				require.True(t, offers[0].Take(d))
				require.Equal(t, d.LeaseID, delivered(t, out).LeaseID)
				require.Equal(t, calls{pops: 1}, store.calls(), "only the first probe")
				require.InDelta(t, 1, b.labelled("belfry_dispatch_wakes_total", "handoff", "delivered"), 0)
				require.Empty(t, b.intents.Handoffs("orders", "1"))
			})
		})
	}
}

// A request that might not accept the delivery, or that shares its target, is left to the rounds.
func TestRequestsWithoutAHandoff(t *testing.T) {
	t.Parallel()
	autoAck := request(time.Hour)
	autoAck.AutoAck = true
	many := make([]*queue.PopRequest, 5)
	for i := range many {
		many[i] = inGroup(request(time.Hour), string(rune('1'+i)))
	}
	for name, waiting := range map[string][]*queue.PopRequest{
		"no request":                   nil,
		"autoAck":                      {inGroup(autoAck, "1")},
		"two requests for one target":  {inGroup(request(time.Hour), "1"), inGroup(request(time.Hour), "1")},
		"another partition":            {inGroup(otherPartition(time.Hour), "1")},
		"more groups than maxHandoffs": many,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := run(t, &fakeStore{resolve: groupsByName, pop: popNothing})
				for _, req := range waiting {
					pending(t, b.begin(t.Context(), req))
				}
				require.Empty(t, b.intents.Handoffs("orders", "1"))
				require.Empty(t, b.intents.Handoffs("bills", "1"))
			})
		})
	}
}

func otherPartition(wait time.Duration) *queue.PopRequest {
	req, partition := request(wait), "2"
	req.Partition = &partition
	return req
}

func popNothing(context.Context, *queue.PopRequest) (queue.Delivery, error) {
	return queue.Delivery{}, nil
}

func TestHandoffsOfSeveralGroups(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{resolve: groupsByName, pop: popNothing})
		anyOut := b.begin(t.Context(), inGroup(request(time.Hour), "1"))
		pending(t, anyOut)
		specificOut := b.begin(t.Context(), inGroup(specific(time.Hour), "2"))
		pending(t, specificOut)
		offers := b.intents.Handoffs("orders", "1")
		require.Len(t, offers, 2)
		require.Equal(t, []int64{2, 1}, []int64{offers[0].Target.Group, offers[1].Target.Group}, "the request for this partition comes first")
		require.Empty(t, b.intents.Handoffs("orders", "1"), "both have an offer already")
		require.True(t, offers[1].Take(claimed()))
		delivered(t, anyOut)
		pending(t, specificOut)
		require.False(t, offers[0].Take(queue.Delivery{}))
		pending(t, specificOut)
	})
}

// The push claimed for a request, but its messages are not due yet. The request keeps waiting and
// gets no second handoff.
func TestMissedHandoffIsNotRepeated(t *testing.T) {
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

// The request does not take the delivery, so the store releases it.
func TestHandoffToARequestThatNoLongerWaits(t *testing.T) {
	t.Parallel()
	for name, wake := range map[string]func(b *harness, leave context.CancelFunc){
		"it found other messages":     func(b *harness, _ context.CancelFunc) { b.ready(1, 2, 1) },
		"it probed and found nothing": func(b *harness, _ context.CancelFunc) { b.bus.Resync("a resync", events.Peer) },
		"its client left":             func(_ *harness, leave context.CancelFunc) { leave() },
		"its time is up":              nil,
		"the server stops":            func(b *harness, _ context.CancelFunc) { b.Stop() },
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
				require.False(t, offer.Take(claimed()))
			})
		})
	}
}

func TestHandoffIsNotLostToASimultaneousWakeOrStop(t *testing.T) {
	t.Parallel()
	for name, wake := range map[string]func(b *harness){
		"a wake":   func(b *harness) { b.bus.Resync("a resync", events.Peer) },
		"the stop": func(b *harness) { b.Stop() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := run(t, &fakeStore{})
				out := b.wait()
				offer := b.intents.Handoffs("orders", "1")[0]
				d := claimed()
				require.True(t, offer.Take(d))
				wake(b)
				require.Equal(t, d.LeaseID, delivered(t, out).LeaseID)
			})
		})
	}
}

func TestHandoffToAClientThatLeavesIsReleased(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		b := run(t, store)
		ctx, leave := context.WithCancel(t.Context())
		out := b.begin(ctx, request(time.Hour))
		pending(t, out)
		d := claimed()
		require.True(t, b.intents.Handoffs("orders", "1")[0].Take(d))
		leave()
		require.ErrorIs(t, answered(t, out).err, context.Canceled)
		require.Equal(t, []queue.ID{d.LeaseID}, store.leases())
	})
}
