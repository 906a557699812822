package dispatch_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/dispatch"
	"github.com/belfry-mq/belfry/pkg/queue"
)

func TestWithoutWaitThereIsOneLook(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]time.Duration{"zero": 0, "negative": -time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := &fakeStore{}
				a := settled(t, start(t.Context(), dispatcher(store), wait))
				require.NoError(t, a.err)
				require.Empty(t, a.Messages)
				require.Zero(t, a.took)
				require.Equal(t, 1, store.count())
			})
		})
	}
}

func TestWhatIsThereIsAnsweredAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lease := queue.NewID()
		store := &fakeStore{pop: func(context.Context, *queue.PopRequest, int) (queue.Delivery, error) { return delivery(lease), nil }}
		a := settled(t, start(t.Context(), dispatcher(store), time.Minute))
		require.NoError(t, a.err)
		require.Equal(t, delivery(lease), a.Delivery)
		require.Equal(t, 1, store.count())
		require.Empty(t, store.leases())
	})
}

func TestWhatComesLaterIsFoundByTheNextLook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lease := queue.NewID()
		store := &fakeStore{}
		store.pop = func(_ context.Context, _ *queue.PopRequest, look int) (queue.Delivery, error) {
			if look < 4 {
				return queue.Delivery{}, nil
			}
			return delivery(lease), nil
		}
		d := dispatcher(store)
		a := <-start(t.Context(), d, time.Minute)
		require.NoError(t, a.err)
		require.Equal(t, lease, a.LeaseID)
		require.Equal(t, 4, store.count())
		require.LessOrEqual(t, a.took, 700*time.Millisecond, "100 + 200 + 400 ms at most")
		require.Empty(t, store.leases())
		require.Zero(t, d.Waiting())
	})
}

func TestLooksBackOff(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		edit func(*dispatch.Config)
		want []time.Duration
	}{
		"as configured by default": {
			func(*dispatch.Config) {},
			[]time.Duration{100 * ms, 200 * ms, 400 * ms, 800 * ms, 1600 * ms, 2000 * ms, 2000 * ms, 2000 * ms},
		},
		"with a threshold": {
			func(c *dispatch.Config) { c.BackoffThreshold = 4 },
			[]time.Duration{100 * ms, 100 * ms, 100 * ms, 100 * ms, 200 * ms, 400 * ms, 800 * ms, 1600 * ms, 2000 * ms},
		},
		"with another interval, multiplier and cap": {
			func(c *dispatch.Config) { c.PollInterval, c.BackoffMultiplier, c.MaxPollInterval = 10*ms, 3, 500*ms },
			[]time.Duration{10 * ms, 30 * ms, 90 * ms, 270 * ms, 500 * ms, 500 * ms},
		},
		"constant": {
			func(c *dispatch.Config) { c.BackoffMultiplier = 1 },
			[]time.Duration{100 * ms, 100 * ms, 100 * ms, 100 * ms, 100 * ms},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := &fakeStore{}
				ctx, cancel := context.WithCancel(t.Context())
				out := start(ctx, dispatcher(store, c.edit), time.Hour)
				time.Sleep(30 * time.Second)
				cancel()
				require.ErrorIs(t, settled(t, out).err, context.Canceled)
				gaps := store.gaps()
				require.Greater(t, len(gaps), len(c.want))
				for i, want := range c.want {
					require.LessOrEqual(t, gaps[i], want, "delay %d of %v", i+1, gaps)
					require.GreaterOrEqual(t, gaps[i], want-want/10, "delay %d of %v: jitter takes a tenth at most", i+1, gaps)
				}
				// The cap holds for as long as the request waits.
				for _, gap := range gaps[len(c.want):] {
					require.LessOrEqual(t, gap, c.want[len(c.want)-1])
				}
			})
		})
	}
}

func TestWaitersDoNotLookInStep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stores := make([]*fakeStore, 5)
		ctx, cancel := context.WithCancel(t.Context())
		var outs []<-chan answer
		for i := range stores {
			stores[i] = &fakeStore{}
			outs = append(outs, start(ctx, dispatcher(stores[i]), time.Hour))
		}
		time.Sleep(5 * time.Second)
		cancel()
		different := map[time.Duration]bool{}
		for i, out := range outs {
			require.ErrorIs(t, settled(t, out).err, context.Canceled)
			different[stores[i].gaps()[0]] = true
		}
		require.Greater(t, len(different), 1, "five requests drew the same delay")
	})
}

func TestEmptyAnswerComesALittleBeforeTheTimeout(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for wait, want := range map[time.Duration]time.Duration{
		20 * ms:          19 * ms,
		time.Second:      950 * ms,
		5 * time.Second:  4750 * ms,
		10 * time.Second: 9750 * ms,
		30 * time.Second: 29750 * ms,
		10 * time.Minute: 10*time.Minute - 250*ms,
	} {
		t.Run(wait.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := &fakeStore{}
				d := dispatcher(store)
				a := <-start(t.Context(), d, wait)
				require.NoError(t, a.err)
				require.Equal(t, queue.Delivery{Queue: "orders", Group: "g"}, a.Delivery)
				require.Equal(t, want, a.took)
				require.Equal(t, want, store.looks[store.count()-1].Sub(store.looks[0]), "the last look is at the very end")
				require.Zero(t, d.Waiting())
			})
		})
	}
}

func TestSlowFirstLookCountsAgainstTheTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{pop: func(context.Context, *queue.PopRequest, int) (queue.Delivery, error) {
			time.Sleep(3 * time.Second)
			return queue.Delivery{}, nil
		}}
		a := <-start(t.Context(), dispatcher(store), 2*time.Second)
		require.NoError(t, a.err)
		require.Equal(t, 3*time.Second, a.took)
		require.Equal(t, 1, store.count())
	})
}

func TestErrorOfTheStorePassesThrough(t *testing.T) {
	t.Parallel()
	cause := errors.New("no connection")
	for name, at := range map[string]int{"at the first look": 1, "while waiting": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				want := &queue.Error{Code: queue.CodeUnavailable, RetryAfter: time.Second, Err: cause}
				store := &fakeStore{pop: func(_ context.Context, _ *queue.PopRequest, look int) (queue.Delivery, error) {
					if look == at {
						return queue.Delivery{}, want
					}
					return queue.Delivery{}, nil
				}}
				d := dispatcher(store)
				a := <-start(t.Context(), d, time.Minute)
				require.Same(t, want, a.err)
				require.Equal(t, at, store.count())
				require.Zero(t, d.Waiting())
			})
		})
	}
}

func TestRequestReachesTheStoreUnchanged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		partition := "p"
		req := &queue.PopRequest{
			Queue: "q", Partition: &partition, Group: "g", Batch: 7, Partitions: 3, AutoAck: true,
			Subscription: queue.Subscription{Mode: queue.SubscribeNew}, Wait: time.Second,
		}
		var seen []*queue.PopRequest
		store := &fakeStore{pop: func(_ context.Context, req *queue.PopRequest, _ int) (queue.Delivery, error) {
			seen = append(seen, req)
			return queue.Delivery{}, nil
		}}
		_, err := dispatcher(store).Pop(t.Context(), req)
		require.NoError(t, err)
		synctest.Wait()
		require.Greater(t, len(seen), 1)
		for _, r := range seen {
			require.Same(t, req, r)
		}
	})
}
