package dispatch_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// In a new epoch, an id may belong to the group of another queue. A request of the old epoch, which still waits with this id,
// must not affect a request of the new epoch with the same id. An announcement carries no epoch and wakes both requests.
func TestOneIDInTwoEpochs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		epochs := map[string]queue.Epoch{"orders": 5, "bills": 6}
		store := &fakeStore{
			resolve: func(req *queue.PopRequest) (queue.Target, bool, error) {
				return queue.Target{Group: 1, Epoch: epochs[req.Queue]}, true, nil
			},
			onClaim: func(assignments []queue.Assignment) error {
				assert.Equal(t, queue.Epoch(6), assignments[0].Target.Epoch, "the claim is in the epoch of the request")
				return nil
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
		require.Empty(t, b.intents.Handoffs("orders", "1"), "no request waits")
		offers := b.intents.Handoffs("bills", "1")
		require.Len(t, offers, 1)
		require.Equal(t, queue.Target{Group: 1, Epoch: 6}, offers[0].Target, "the claim is in the epoch of the request")
		require.False(t, offers[0].Take(queue.Delivery{}))

		b.ready(1, 1, 1)
		delivered(t, after)

		again := *req
		outs := b.startAll([]*queue.PopRequest{req, &again}) // they share a round
		b.resync(2)
		got, _ := split(t, outs)
		require.Equal(t, 1, got)
	})
}

// A round plans nothing for a target of an old epoch. Otherwise it could give the partition to the request of the old epoch, and
// the request of the new epoch would get nothing.
func TestTwoEpochsInOneRound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var forgotten atomic.Bool
		store := &fakeStore{endedEpoch: 5, onForget: func() { forgotten.Store(true) }}
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
		store.onClaim = func([]queue.Assignment) error {
			store.onClaim = func(assignments []queue.Assignment) error {
				for _, a := range assignments {
					assert.NotEqual(t, store.endedEpoch, a.Target.Epoch)
				}
				return nil
			}
			<-hold
			return nil
		}
		b.ready(9, 1, 1)
		synctest.Wait()
		b.resync(1) // both join the next round
		synctest.Wait()
		close(hold)
		delivered(t, after)
		pending(t, before)
		require.True(t, forgotten.Load())
	})
}

// One of two connections still leads to a Postgres that was replaced. So a target that one connection resolves does not exist for
// the other connection.
func TestRepeatedlyGoneTargetIsProbedWithPauses(t *testing.T) {
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
		require.Greater(t, store.count(), 10)
		require.Less(t, store.count(), 25)
		store.mu.Lock()
		store.gone = nil
		store.mu.Unlock()
		store.put(1, 1, 1, 0)
		require.LessOrEqual(t, (<-out).took, 12*time.Second)
	})
}
