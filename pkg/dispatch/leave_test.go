package dispatch_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/queue"
)

func TestClientThatLeavesEndsItsWaitingAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		d := dispatcher(store)
		ctx, cancel := context.WithCancel(t.Context())
		left, stays := start(ctx, d, time.Minute), start(t.Context(), d, time.Minute)
		time.Sleep(1050 * time.Millisecond)
		pending(t, left)
		require.Equal(t, 2, d.Waiting())
		cancel()
		a := settled(t, left)
		require.Equal(t, context.Canceled, a.err)
		require.Empty(t, a.Messages)
		require.Equal(t, 1050*time.Millisecond, a.took)
		require.Equal(t, 1, d.Waiting())
		require.Empty(t, store.leases(), "nothing was claimed")
		require.NoError(t, (<-stays).err)
	})
}

func TestDeadlineOfTheClientIsNotTheDatabases(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		a := <-start(ctx, dispatcher(&fakeStore{}), time.Minute)
		require.Equal(t, context.DeadlineExceeded, a.err)
		require.Equal(t, time.Second, a.took)
	})
}

func TestClientThatIsGoneTakesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		a := settled(t, start(ctx, dispatcher(store), time.Minute))
		require.Equal(t, context.Canceled, a.err)
		require.Zero(t, store.count())
	})
}

func TestWhatWasClaimedWhileTheClientLeftIsReleased(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]int{"in the first look": 1, "in a later look": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				lease := queue.NewID()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				store := &fakeStore{pop: func(_ context.Context, _ *queue.PopRequest, look int) (queue.Delivery, error) {
					if look < at {
						return queue.Delivery{}, nil
					}
					cancel()
					return delivery(lease), nil
				}}
				d := dispatcher(store)
				a := <-start(ctx, d, time.Minute)
				require.Equal(t, context.Canceled, a.err)
				require.Empty(t, a.Messages, "what was released is not delivered too")
				require.Equal(t, []queue.ID{lease}, store.leases())
				require.Equal(t, at, store.count())
				require.Zero(t, d.Waiting())
			})
		})
	}
}

func TestEmptyLookAndAutoAckHaveNothingToRelease(t *testing.T) {
	t.Parallel()
	for name, found := range map[string]queue.Delivery{
		"nothing found": {LeaseID: queue.NewID()},
		"autoAck":       {Messages: make([]queue.Message, 2)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				store := &fakeStore{pop: func(context.Context, *queue.PopRequest, int) (queue.Delivery, error) {
					cancel()
					return found, nil
				}}
				d := dispatcher(store)
				require.Equal(t, context.Canceled, settled(t, start(ctx, d, time.Minute)).err)
				d.Release(t.Context(), &found)
				require.Empty(t, store.leases())
			})
		})
	}
}

func TestErrorOfALookThatOutlivedItsClientIsTheStores(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		store := &fakeStore{pop: func(context.Context, *queue.PopRequest, int) (queue.Delivery, error) {
			cancel()
			return queue.Delivery{}, broken
		}}
		require.Equal(t, broken, settled(t, start(ctx, dispatcher(store), time.Minute)).err)
		require.Empty(t, store.leases())
	})
}

func TestReleaseThatFailsIsLoggedWithItsLease(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]error{"fails": errors.New("no connection"), "works": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d, logs := logged(&fakeStore{release: broken})
				found := delivery(queue.NewID())
				d.Release(t.Context(), &found)
				if broken == nil {
					require.Zero(t, logs.Len())
					return
				}
				require.Equal(t, 1, logs.Len())
				entry := logs.All()[0]
				require.Equal(t, zap.WarnLevel, entry.Level)
				require.Equal(t, found.LeaseID.String(), entry.ContextMap()["lease_id"])
				require.Equal(t, "orders", entry.ContextMap()["queue"])
				require.Contains(t, entry.ContextMap()["error"], "no connection")
			})
		})
	}
}

func TestStopAnswersEveryWaitingRequestNow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := dispatcher(&fakeStore{})
		var outs []<-chan answer
		for range 50 {
			outs = append(outs, start(t.Context(), d, time.Minute))
		}
		time.Sleep(10 * time.Second)
		for _, out := range outs {
			pending(t, out)
		}
		require.Equal(t, 50, d.Waiting())
		d.Stop()
		for _, out := range outs {
			a := settled(t, out)
			require.NoError(t, a.err)
			require.Equal(t, queue.Delivery{Queue: "orders", Group: "g"}, a.Delivery)
			require.Equal(t, 10*time.Second, a.took)
		}
		require.Zero(t, d.Waiting())
		d.Stop() // a second time does no harm
	})
}

func TestAfterStopARequestLooksOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lease := queue.NewID()
		store := &fakeStore{pop: func(_ context.Context, _ *queue.PopRequest, look int) (queue.Delivery, error) {
			if look == 1 {
				return queue.Delivery{}, nil
			}
			return delivery(lease), nil
		}}
		d := dispatcher(store)
		d.Stop()
		a := settled(t, start(t.Context(), d, time.Minute))
		require.NoError(t, a.err)
		require.Empty(t, a.Messages)
		require.Equal(t, 1, store.count())
		a = settled(t, start(t.Context(), d, time.Minute))
		require.NoError(t, a.err)
		require.Equal(t, lease, a.LeaseID, "what is there is still delivered")
	})
}

func TestStopLetsTheLookInFlightFinish(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lease := queue.NewID()
		inside, finish := make(chan struct{}), make(chan struct{})
		store := &fakeStore{pop: func(_ context.Context, _ *queue.PopRequest, look int) (queue.Delivery, error) {
			if look == 1 {
				return queue.Delivery{}, nil
			}
			close(inside)
			<-finish
			return delivery(lease), nil
		}}
		d := dispatcher(store)
		out := start(t.Context(), d, time.Minute)
		<-inside
		d.Stop()
		pending(t, out)
		close(finish)
		a := settled(t, out)
		require.NoError(t, a.err)
		require.Equal(t, lease, a.LeaseID)
		synctest.Wait()
		require.Empty(t, store.leases())
	})
}
