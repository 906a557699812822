package dispatch_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/dispatch"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

const ms = time.Millisecond

// backsOff compares delays with the expected delays, which have no jitter.
func backsOff(t *testing.T, want, got []time.Duration) {
	t.Helper()
	require.GreaterOrEqual(t, len(got), len(want))
	for i := range want {
		require.LessOrEqual(t, got[i], want[i], "delay %d of %v", i+1, got)
		require.GreaterOrEqual(t, got[i], want[i]-want[i]/10, "delay %d of %v: jitter takes a tenth at most", i+1, got)
	}
}

func TestProvenFallbackIsLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		b := run(t, store)
		out := b.wait()
		store.put(1, 1, 1, 0) // without an announcement
		time.Sleep(4*time.Minute - time.Nanosecond)
		pending(t, out)
		require.Equal(t, 1, store.count(), "no probe for four minutes")
		time.Sleep(time.Minute)
		delivered(t, out)
	})
}

func TestUnprovenProbesBackOff(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		edit func(*settings)
		want []time.Duration
	}{
		"as configured by default": {
			func(*settings) {},
			[]time.Duration{100 * ms, 200 * ms, 400 * ms, 800 * ms, 1600 * ms, 2000 * ms, 2000 * ms, 2000 * ms},
		},
		"with a threshold": {
			func(s *settings) { s.BackoffThreshold = 4 },
			[]time.Duration{100 * ms, 100 * ms, 100 * ms, 100 * ms, 200 * ms, 400 * ms, 800 * ms, 1600 * ms, 2000 * ms},
		},
		"with another interval, multiplier and cap": {
			func(s *settings) { s.PollInterval, s.BackoffMultiplier, s.MaxPollInterval = 10*ms, 3, 500*ms },
			[]time.Duration{10 * ms, 30 * ms, 90 * ms, 270 * ms, 500 * ms, 500 * ms},
		},
		"constant": {
			func(s *settings) { s.BackoffMultiplier = 1 },
			[]time.Duration{100 * ms, 100 * ms, 100 * ms, 100 * ms, 100 * ms},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := &fakeStore{}
				b := run(t, store, unproven, c.edit)
				out := b.wait()
				time.Sleep(30 * time.Second)
				pending(t, out)
				gaps := store.gaps()
				backsOff(t, c.want, gaps)
				for _, gap := range gaps[len(c.want):] {
					require.LessOrEqual(t, gap, c.want[len(c.want)-1], "no delay is above the maximum")
				}
			})
		})
	}
}

// A hundred requests of a group probe as often as one request.
func TestRequestsOfAGroupShareTheirBackoff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		b := run(t, store, unproven)
		outs := b.many(100)
		time.Sleep(50 * ms)
		late := b.wait()
		store.mu.Lock()
		store.statements = nil // each request made its own first probe
		store.mu.Unlock()
		time.Sleep(10 * time.Second)
		require.Len(t, store.times(), store.count(), "one statement for all")
		backsOff(t, []time.Duration{200 * ms, 400 * ms, 800 * ms, 1600 * ms, 2000 * ms, 2000 * ms}, store.gaps())

		store.put(1, 1, 1, 0)
		store.put(1, 2, 1, 0)
		time.Sleep(2 * time.Second)
		got, _ := split(t, append(outs, late))
		require.Equal(t, 2, got, "all requests probe at that instant")
	})
}

func TestTargetsBackOffSeparately(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		b := run(t, store, unproven)
		b.wait()
		time.Sleep(10 * time.Second)
		pending(t, b.begin(t.Context(), specific(time.Hour)))
		b.store.put(1, 1, 1, 0)
		before := store.count()
		time.Sleep(100 * ms)
		require.Equal(t, before+1, store.count(), "the other target starts with the shortest delay")
	})
}

func TestBackoffIsReset(t *testing.T) {
	t.Parallel()
	for name, reset := range map[string]func(b *harness){
		"by a wake": func(b *harness) { b.bus.Ready([]queue.Ready{{Group: 1, Partition: 1}}, events.Here) },
		"by a delivery": func(b *harness) {
			b.store.put(1, 1, 1, 0)
			delivered(b.t, b.begin(b.t.Context(), request(time.Hour)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := run(t, &fakeStore{}, unproven)
				out := b.wait()
				time.Sleep(10 * time.Second)
				require.NotEmpty(t, b.Status().Backoff)
				reset(b)
				synctest.Wait()
				require.Empty(t, b.Status().Backoff)
				time.Sleep(2 * time.Second) // requests with a long delay probe
				synctest.Wait()
				status := b.Status().Backoff
				require.Len(t, status, 1)
				require.LessOrEqual(t, status[0].EmptyProbes, 5)
				require.Positive(t, status[0].EmptyProbes)
				pending(t, out)
			})
		})
	}
}

func TestIdleBackoffIsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{}, unproven, func(s *settings) { s.BackoffCleanup = time.Minute })
		<-b.begin(t.Context(), request(20*time.Second))
		time.Sleep(40 * time.Second)
		require.Len(t, b.Status().Backoff, 1)
		time.Sleep(40 * time.Second)
		synctest.Wait()
		require.Empty(t, b.Status().Backoff)
	})
}

// While the listener is proven, the backoff does not grow. If the listener fails later, the first delay is the shortest delay.
func TestProvenFallbackDoesNotGrowTheBackoff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{})
		b.wait()
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		require.Greater(t, b.store.count(), 1)
		require.Empty(t, b.Status().Backoff)
		b.unproven.Store(true)
		b.bus.Resync("the listener is degraded", events.Peer)
		synctest.Wait()
		before := b.store.count()
		time.Sleep(100 * ms)
		synctest.Wait()
		require.Equal(t, before+1, b.store.count())
	})
}

func TestEmptyAnswerComesALittleBeforeTheTimeout(t *testing.T) {
	t.Parallel()
	for wait, want := range map[time.Duration]time.Duration{
		20 * ms:          19 * ms,
		time.Second:      950 * ms,
		5 * time.Second:  4750 * ms,
		10 * time.Second: 9750 * ms,
		30 * time.Second: 29750 * ms,
		10 * time.Minute: 10*time.Minute - 250*ms,
	} {
		for _, unproven := range []bool{false, true} {
			t.Run(wait.String(), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					b := run(t, &fakeStore{}, func(s *settings) { s.unproven = unproven })
					a := <-b.begin(t.Context(), request(wait))
					require.NoError(t, a.err)
					require.Equal(t, queue.Delivery{Queue: "orders", Group: "g"}, a.Delivery)
					require.Equal(t, want, a.took)
					require.Zero(t, b.Waiting())
				})
			})
		}
	}
}

func TestSlowFirstProbeCountsAgainstTheTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{onPop: func(*queue.PopRequest) error {
			time.Sleep(3 * time.Second)
			return nil
		}})
		a := <-b.begin(t.Context(), request(2*time.Second))
		require.NoError(t, a.err)
		require.Equal(t, 3*time.Second, a.took)
	})
}

func TestErrorOfTheStorePassesThrough(t *testing.T) {
	t.Parallel()
	want := &queue.Error{Code: queue.CodeUnavailable, RetryAfter: time.Second, Err: errors.New("no connection")}
	for name, store := range map[string]*fakeStore{
		"of resolving":       {resolve: func(*queue.PopRequest) (queue.Target, bool, error) { return queue.Target{}, false, want }},
		"of the first probe": {onPop: func(*queue.PopRequest) error { return want }},
		"of the claim":       {onClaim: func([]queue.Assignment) error { return want }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := run(t, store)
				out := b.begin(t.Context(), request(time.Hour))
				synctest.Wait()
				b.ready(1, 1, 1)
				require.Same(t, want, answered(t, out).err)
				require.Zero(t, b.Waiting())
			})
		})
	}
}

func TestRequestReachesTheStoreUnchanged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		req := specific(time.Hour)
		req.Batch, req.Partitions, req.AutoAck = 7, 3, true
		req.Subscription = queue.Subscription{Mode: queue.SubscribeNew}
		var seen []*queue.PopRequest
		record := func(req *queue.PopRequest) { seen = append(seen, req) }
		store := &fakeStore{
			resolve: func(req *queue.PopRequest) (queue.Target, bool, error) { record(req); return targetOf(req), true, nil },
			onPop:   func(req *queue.PopRequest) error { record(req); return nil },
			onClaim: func(assignments []queue.Assignment) error {
				assert.Equal(t, []queue.Assignment{{Request: req, Target: queue.Target{Group: 1, Partition: 1}}}, assignments)
				record(assignments[0].Request)
				return nil
			},
		}
		b := run(t, store)
		out := b.begin(context.WithoutCancel(t.Context()), req)
		pending(t, out)
		b.ready(1, 1, 1)
		delivered(t, out)
		require.GreaterOrEqual(t, len(seen), 4)
		for _, r := range seen {
			require.Same(t, req, r)
		}
	})
}

func TestDefaultConfigIsValid(t *testing.T) {
	t.Parallel()
	require.NoError(t, dispatch.DefaultConfig().Validate())
	require.NoError(t, dispatch.DefaultSmartPoll().Validate())
}

func TestValidateReportsEveryInvalidValue(t *testing.T) {
	t.Parallel()
	for section, c := range map[string]struct {
		err  error
		keys []string
	}{
		"dispatch": {dispatch.Config{MaxPollInterval: -1}.Validate(), []string{
			"max_intentions", "poll_workers", "poll_interval", "max_poll_interval", "fallback_interval",
			"backoff_threshold", "backoff_multiplier", "backoff_cleanup",
		}},
		"smart_poll": {dispatch.SmartPoll{MinInterval: -1}.Validate(), []string{"preflight_timeout", "max_intentions", "min_interval"}},
	} {
		var joined interface{ Unwrap() []error }
		require.ErrorAs(t, c.err, &joined)
		require.Len(t, joined.Unwrap(), len(c.keys))
		for _, key := range c.keys {
			require.ErrorContains(t, c.err, section+"."+key+" is ")
		}
	}
}

func TestMaxPollIntervalIsAtLeastPollInterval(t *testing.T) {
	t.Parallel()
	cfg := dispatch.DefaultConfig()
	cfg.MaxPollInterval = cfg.PollInterval
	require.NoError(t, cfg.Validate())
	cfg.MaxPollInterval--
	require.ErrorContains(t, cfg.Validate(), "must not be below dispatch.poll_interval")
}
