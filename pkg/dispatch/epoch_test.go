package dispatch_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// In another life of the database an id may stand for the group of another queue, and
// who waits for what it was may not have noticed yet. They do not get into each other's
// way, and an announcement, which does not tell the life, wakes them.
func TestOneIDInTwoLives(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lives := map[string]queue.Epoch{"orders": 5, "bills": 6}
		store := &fakeStore{
			resolve: func(req *queue.PopRequest) (queue.Target, bool, error) {
				return queue.Target{Group: 1, Epoch: lives[req.Queue]}, true, nil
			},
		}
		b := run(t, store)
		ctx, leave := context.WithCancel(t.Context())
		before := b.begin(ctx, request(time.Hour))
		pending(t, before)
		req := request(time.Hour)
		req.Queue = "bills"
		after := b.begin(t.Context(), req)
		pending(t, after)
		leave()
		require.ErrorIs(t, (<-before).err, context.Canceled)
		require.Empty(t, b.intents.Handoffs("orders", "1"), "nobody waits any more")
		offers := b.intents.Handoffs("bills", "1")
		require.Len(t, offers, 1)
		require.Equal(t, queue.Target{Group: 1, Epoch: 6}, offers[0].Target, "it is claimed for in its own life")
		require.False(t, offers[0].Take(queue.Delivery{}))

		b.ready(1, 1, 1)
		delivered(t, after)
		require.Equal(t, queue.Epoch(6), store.claims[0][0].Target.Epoch)
		require.InDelta(t, 1, b.labelled("belfry_dispatch_wakes_total", "local", "delivered"), 0)

		for range 2 { // two share a round
			pending(t, b.begin(t.Context(), req))
		}
		b.ready(1, 2, 1)
		synctest.Wait()
		require.Equal(t, 1, store.calls().preflights)
		require.Equal(t, queue.Epoch(6), store.claims[1][0].Target.Epoch)
	})
}

// Nothing is planned for who waits for what has ended: it would be missing for whose it is.
func TestTwoLivesInOneRound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var forgotten atomic.Bool
		store := &fakeStore{ended: 5, onForget: func() { forgotten.Store(true) }}
		store.resolve = func(req *queue.PopRequest) (queue.Target, bool, error) {
			switch {
			case req.Queue == "others":
				return queue.Target{Group: 9, Epoch: 6}, true, nil
			case req.Queue == "bills":
				return queue.Target{Group: 1, Epoch: 6}, true, nil
			case forgotten.Load():
				return queue.Target{Group: 2, Epoch: 6}, true, nil
			default:
				return queue.Target{Group: 1, Epoch: 5}, true, nil
			}
		}
		b := run(t, store, oneWorker)
		wait := func(queueName string, patience time.Duration) <-chan answer {
			req := request(patience)
			req.Queue = queueName
			out := b.begin(t.Context(), req)
			pending(t, out)
			return out
		}
		wait("others", time.Hour)
		wait("others", time.Hour)
		before, after := wait("orders", time.Minute), wait("bills", time.Hour)
		hold := make(chan struct{})
		store.onPreflight = func(time.Duration) error {
			store.onPreflight = nil
			<-hold
			return nil
		}
		b.ready(9, 1, 0)
		synctest.Wait()
		b.ready(1, 1, 1) // both ask while a round is under way
		synctest.Wait()
		close(hold)
		delivered(t, after)
		pending(t, before)
		require.True(t, forgotten.Load())
		for _, claims := range store.claims {
			for _, one := range claims {
				require.NotEqual(t, store.ended, one.Target.Epoch)
			}
		}
	})
}

// Where one connection leads to a Postgres that another one has replaced, what is found
// over the one is gone over the other for as long as that lasts.
func TestWhatIsGoneAgainAndAgainIsNotLookedForWithoutPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{gone: map[int64]bool{1: true}}
		store.resolve = func(*queue.PopRequest) (queue.Target, bool, error) { return queue.Target{Group: 1}, true, nil }
		b := run(t, store)
		out := b.begin(t.Context(), request(time.Hour))
		pending(t, out)
		b.bus.Resync("another server", events.Peer)
		time.Sleep(10 * time.Second)
		pending(t, out)
		require.Greater(t, store.calls().claims, 10)
		require.Less(t, store.calls().claims, 25)
		store.mu.Lock()
		store.gone = nil
		store.mu.Unlock()
		store.put(1, 1, 1, 0)
		require.LessOrEqual(t, (<-out).took, 12*time.Second)
	})
}
