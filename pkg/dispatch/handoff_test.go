package dispatch_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// claimed is a delivery that a push claimed.
func claimed() queue.Delivery {
	return queue.Delivery{
		LeaseID: queue.NewID(), Messages: []queue.Message{{Partition: &queue.Partition{Key: 1}}}, Partitions: 1,
	}
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
				require.Equal(t, 1, store.count(), "only the first probe")
				require.Empty(t, b.intents.Handoffs("orders", "1"))
			})
		})
	}
}

// In these cases a push hands over nothing. A round serves the requests.
func TestRequestsWithoutAHandoff(t *testing.T) {
	t.Parallel()
	many := make([]*queue.PopRequest, 5)
	for i := range many {
		many[i] = inGroup(request(time.Hour), string(rune('1'+i)))
	}
	for name, waiting := range map[string][]*queue.PopRequest{
		"no request":                   nil,
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
		require.Empty(t, b.intents.Handoffs("orders", "1"), "both requests have an offer already")
		require.True(t, offers[1].Take(claimed()))
		delivered(t, anyOut)
		pending(t, specificOut)
		require.False(t, offers[0].Take(queue.Delivery{}))
		pending(t, specificOut)
	})
}

func autoAck(req *queue.PopRequest) *queue.PopRequest {
	req.AutoAck = true
	return req
}

// Of the requests with the same target, the request with the earliest deadline gets the handoff. A push makes one handoff for
// each group.
func TestTheEarliestDeadlineGetsTheHandoff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{resolve: groupsByName, pop: popNothing})
		var outs []<-chan answer
		for _, wait := range []time.Duration{3, 1, 2} {
			outs = append(outs, b.begin(t.Context(), inGroup(request(wait*time.Hour), "1")))
		}
		named := b.begin(t.Context(), inGroup(specific(4*time.Hour), "1"))
		pending(t, named)
		for _, want := range []<-chan answer{named, outs[1], outs[2], outs[0]} {
			offers := b.intents.Handoffs("orders", "1")
			require.Len(t, offers, 1)
			require.True(t, offers[0].Take(claimed()))
			delivered(t, want)
		}
		require.Empty(t, b.intents.Handoffs("orders", "1"))
		require.Zero(t, b.Waiting())
	})
}

// If a partition becomes ready while a push claims for a request, another waiting request gets it.
func TestAWakeDuringAHandoffGoesToAnotherRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{})
		first := b.wait()
		second := b.begin(t.Context(), request(2*time.Hour))
		pending(t, second)
		offer := b.intents.Handoffs("orders", "1")[0]
		b.ready(1, 2, 1)
		delivered(t, second)
		require.True(t, offer.Take(claimed()))
		delivered(t, first)
	})
}

// A claim with AutoAck consumes the messages. So a request with an offer always waits for the end of the offer.
func TestHandoffToAnAutoAckRequestIsNeverRefused(t *testing.T) {
	t.Parallel()
	for name, wake := range map[string]func(b *harness, leave context.CancelFunc){
		"nothing":           nil,
		"a wake":            func(b *harness, _ context.CancelFunc) { b.ready(1, 2, 1) },
		"a resync":          func(b *harness, _ context.CancelFunc) { b.bus.Resync("a resync", events.Peer) },
		"its time is up":    func(*harness, context.CancelFunc) { <-time.After(2 * time.Hour) },
		"the server stops":  func(b *harness, _ context.CancelFunc) { b.Stop() },
		"its client leaves": func(_ *harness, leave context.CancelFunc) { leave() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := run(t, &fakeStore{})
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				out := b.begin(ctx, autoAck(request(time.Hour)))
				pending(t, out)
				offer := b.intents.Handoffs("orders", "1")[0]
				if wake != nil {
					wake(b, leave)
				}
				pending(t, out)
				d := claimed()
				d.LeaseID = queue.ID{}
				require.True(t, offer.Take(d))
				if a := answered(t, out); name != "its client leaves" {
					require.NoError(t, a.err)
					require.Len(t, a.Messages, 1)
				}
				require.Equal(t, 1, b.store.count())
			})
		})
	}
}

// After the offer of a failed push, the request continues as if it had no offer.
func TestAnAutoAckRequestContinuesAfterAnEmptyHandoff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{})
		out := b.begin(t.Context(), autoAck(request(time.Hour)))
		pending(t, out)
		offer := b.intents.Handoffs("orders", "1")[0]
		b.ready(1, 2, 1)
		pending(t, out)
		require.False(t, offer.Take(queue.Delivery{}))
		delivered(t, out)
	})
}

// The messages may be consumed already, so the request must fail and not wait for other messages.
func TestAnAutoAckRequestFailsIfItsHandoffIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{})
		out := b.begin(t.Context(), autoAck(request(time.Hour)))
		pending(t, out)
		lost := &queue.Error{Code: queue.CodeUnavailable}
		require.False(t, b.intents.Handoffs("orders", "1")[0].Take(queue.Delivery{Lost: lost}))
		require.ErrorIs(t, answered(t, out).err, lost)
	})
}

// After a handoff, the target is known to be empty again. It is not known to be empty if another partition became ready during
// the handoff, or if the handoff left messages.
func TestWhatIsKnownAfterAHandoff(t *testing.T) {
	t.Parallel()
	other := queue.Ready{Group: 1, Partition: 2}
	for name, c := range map[string]struct {
		meanwhile []queue.Ready
		left      time.Duration
		looks     int
	}{
		"nothing else":                       {nil, time.Minute, 0},
		"another partition is ready":         {[]queue.Ready{other}, time.Minute, 1},
		"another partition is ready later":   {[]queue.Ready{{Group: 1, Partition: 2, In: time.Hour}}, time.Minute, 0},
		"the partition has messages left":    {nil, 0, 1},
		"the lease of the handoff has ended": {nil, time.Nanosecond, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := run(t, &fakeStore{})
				out := b.wait()
				offer := b.intents.Handoffs("orders", "1")[0]
				b.bus.Ready(c.meanwhile, events.Here)
				d := claimed()
				d.NoteDueIn(c.left)
				require.True(t, offer.Take(d))
				b.bus.Ready([]queue.Ready{{Group: 1, Partition: 1, In: c.left}}, events.Here)
				delivered(t, out)
				time.Sleep(time.Nanosecond)
				before := b.store.count()
				pending(t, b.begin(t.Context(), request(time.Hour)))
				require.Equal(t, c.looks, b.store.count()-before)
			})
		})
	}
}

// The push claimed for a request, but its messages are not due yet. The request keeps waiting and gets no second handoff.
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
		require.Equal(t, 1, store.count())
		time.Sleep(time.Minute)
		delivered(t, out)
	})
}

// A request that no longer waits does not take the delivery, so the store releases it.
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
