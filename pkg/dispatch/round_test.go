package dispatch_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// groups returns n requests, each for a different group.
func groups(store *fakeStore, n int) []*queue.PopRequest {
	ids := map[string]int64{}
	reqs := requests(n)
	for i, req := range reqs {
		req.Queue = "orders " + string(rune('a'+i))
		ids[req.Queue] = int64(i + 1)
	}
	store.resolve = func(req *queue.PopRequest) (queue.Target, bool, error) {
		return queue.Target{Group: ids[req.Queue]}, true, nil
	}
	return reqs
}

// startAll begins requests and returns when all of them wait for a wake.
func (b *harness) startAll(reqs []*queue.PopRequest) []<-chan answer {
	b.t.Helper()
	outs := make([]<-chan answer, len(reqs))
	for i, req := range reqs {
		outs[i] = b.begin(b.t.Context(), req)
		pending(b.t, outs[i])
	}
	return outs
}

func oneWorker(s *settings) { s.PollWorkers = 1 }

// holdNextRound blocks the next preflight or claim until the returned function is called.
func (b *harness) holdNextRound() (release func()) {
	held := make(chan struct{})
	var first atomic.Bool
	wait := func() error {
		if first.CompareAndSwap(false, true) {
			<-held
		}
		return nil
	}
	b.store.onPreflight = func([]queue.Probe, time.Duration) error { return wait() }
	b.store.onClaim = func([]queue.Assignment) error { return wait() }
	return func() { close(held) }
}

func TestManyRequestsNeedSeveralRounds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{}, oneWorker, func(s *settings) { s.smart.MaxIntentions = 4 })
		outs := b.startAll(groups(b.store, 11))
		before := b.store.count()
		release := b.holdNextRound()
		b.ready(1, 1, 1) // the others join during this round
		synctest.Wait()
		for g := int64(2); g <= 11; g++ {
			b.ready(g, 1, 1)
		}
		synctest.Wait()
		release()
		got, _ := split(t, outs)
		require.Equal(t, 11, got)
		require.Equal(t, before+1+2*3, b.store.count(), "a claim for the first request, then a preflight and claims for 4, 4 and 2 requests")
	})
}

// If deadlines are equal, the oldest request is first.
func TestRoundsServeTheEarliestDeadlineFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{}, oneWorker, func(s *settings) { s.smart.MaxIntentions = 1 })
		reqs := groups(b.store, 5)
		for i, req := range reqs {
			req.Wait = time.Hour - time.Duration(i)*time.Minute
		}
		b.startAll(reqs[:4])
		time.Sleep(time.Minute)
		b.startAll(reqs[4:]) // its deadline equals the deadline of the fourth request
		release := b.holdNextRound()
		var order []int64
		hold := b.store.onClaim
		b.store.onClaim = func(assignments []queue.Assignment) error {
			order = append(order, assignments[0].Target.Group)
			return hold(assignments)
		}
		b.ready(1, 1, 1)
		synctest.Wait()
		for _, g := range []int64{5, 2, 3, 4} {
			b.ready(g, 1, 1)
		}
		synctest.Wait()
		release()
		synctest.Wait()
		require.Equal(t, []int64{1, 4, 5, 3, 2}, order)
	})
}

func TestWorkersDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{})
		outs := b.startAll(groups(b.store, 2))
		release := b.holdNextRound()
		b.ready(1, 1, 1)
		synctest.Wait()
		b.ready(2, 1, 1)
		delivered(t, outs[1])
		pending(t, outs[0])
		release()
		delivered(t, outs[0])
	})
}

// A slow database delays the requests but starves none. Each try has twice the time limit of the previous try. The limit shrinks
// again when the database is fast.
func TestPreflightThatExceedsItsLimitGetsTwiceTheTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{}, oneWorker)
		takes := 300 * ms
		var limits []time.Duration
		tooShort := 0
		b.store.onPreflight = func(_ []queue.Probe, limit time.Duration) error {
			limits = append(limits, limit)
			time.Sleep(min(limit, takes))
			if limit < takes {
				tooShort++
				return &queue.Error{Code: queue.CodeUnavailable, Timeout: true}
			}
			return nil
		}
		outs := b.many(3)
		b.resync(1, 2, 3)
		time.Sleep(5 * time.Second)
		got, _ := split(t, outs)
		require.Equal(t, 3, got, "no request starves")
		require.Equal(t, []time.Duration{50 * ms, 100 * ms, 200 * ms, 400 * ms}, limits[:4])
		warnings := b.logs.FilterMessageSnippet("smart_poll.preflight_timeout")
		require.Equal(t, tooShort, warnings.Len())
		require.Equal(t, 100*ms, warnings.All()[0].ContextMap()["next_limit"])

		takes = 0
		more := b.many(7) // two requests keep waiting, so each round makes a preflight
		for p := range int64(5) {
			b.resync(p + 4)
			synctest.Wait()
		}
		got, _ = split(t, more)
		require.Equal(t, 5, got)
		require.Equal(t, 50*ms, limits[len(limits)-1])
	})
}

// The number of tries is bounded. An error that is not a timeout is not retried.
func TestPreflightThatNeverAnswersIsAnError(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err   *queue.Error
		tries int
	}{
		"always too slow": {&queue.Error{Code: queue.CodeUnavailable, Timeout: true}, 8},
		"no connection":   {&queue.Error{Code: queue.CodeUnavailable}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				tries := 0
				b := run(t, &fakeStore{onPreflight: func([]queue.Probe, time.Duration) error { tries++; return c.err }})
				outs := b.many(2)
				b.resync(1)
				time.Sleep(time.Minute)
				failed := 0
				for _, out := range outs { // a request after the round may claim directly
					if a := answered(t, out); a.err != nil {
						require.ErrorIs(t, a.err, c.err)
						failed++
					}
				}
				require.Positive(t, failed)
				require.GreaterOrEqual(t, tries, c.tries)
				require.Less(t, tries, 2*c.tries+1)
				b.store.onPreflight = nil
				b.ready(1, 2, 1)
				delivered(t, b.begin(t.Context(), request(time.Hour)))
			})
		})
	}
}

func TestRoundsKeepTheMinInterval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{}, oneWorker, func(s *settings) { s.smart.MinInterval, s.smart.MaxIntentions = time.Second, 2 })
		outs := b.startAll(groups(b.store, 7))
		b.ready(1, 1, 1)
		a := delivered(t, outs[0])
		require.Zero(t, a.took, "the first round starts at once")
		for g := int64(2); g <= 7; g++ {
			b.ready(g, 1, 1)
			time.Sleep(10 * ms)
		}
		time.Sleep(10 * time.Second)
		got, waiting := split(t, outs[1:])
		require.Equal(t, 6, got)
		require.Zero(t, waiting)
		gaps := b.store.gaps()
		require.Len(t, gaps, 3)
		for _, gap := range gaps {
			require.GreaterOrEqual(t, gap, time.Second)
		}
		// After a pause the next round starts at once.
		again := b.startAll(groups(b.store, 1))
		b.ready(1, 2, 1)
		require.Zero(t, delivered(t, again[0]).took)
	})
}

func TestEndOfRunAnswersQueuedRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, &fakeStore{}, oneWorker, func(s *settings) { s.smart.MinInterval = time.Hour })
		outs := b.startAll(groups(b.store, 2))
		b.ready(1, 1, 1)
		delivered(t, outs[0])
		b.ready(2, 1, 1) // its round starts in an hour
		pending(t, outs[1])
		b.end()
		require.NoError(t, answered(t, outs[1]).err)
	})
}
