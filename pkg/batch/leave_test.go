package batch_test

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/batch"
)

// The first operation leaves at once; while it is in flight the next batch
// grows, and leaves when it lands.
func TestFirstLeavesAtOnceAndTheNextGrows(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newTower(t)
		began := time.Now()
		a := w.do("a")
		require.Equal(t, []string{"a"}, w.inFlight())
		b, c := w.do("b"), w.do("c")
		require.Equal(t, []string{"a"}, w.inFlight())
		w.land(nil, nil)
		require.NoError(t, outcome(t, a))
		require.Equal(t, []string{"b c"}, w.inFlight())
		open(t, b)
		w.land(nil, nil)
		require.NoError(t, outcome(t, b))
		require.NoError(t, outcome(t, c))
		require.Zero(t, time.Since(began), "nobody waited for a timer")
	})
}

func TestEachOperationHasItsOwnOutcome(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newTower(t)
		w.do("first")
		outs := w.doMany("m", 3)
		w.land(nil, nil)
		w.land([]error{nil, errBad, nil}, nil)
		require.NoError(t, outcome(t, outs[0]))
		require.ErrorIs(t, outcome(t, outs[1]), errBad)
		require.NoError(t, outcome(t, outs[2]))
		require.Equal(t, []string{"first", "m0 m1 m2"}, w.tried())
	})
}

func TestBatchIsBoundedBySize(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newTower(t, func(c *batch.Config) { c.MaxSize = 10 })
		w.do("first")
		for i, size := range []int{6, 4, 1, 50, 3} {
			w.begin(t.Context(), fmt.Sprint(i), nil, size)
		}
		w.landAll()
		require.Equal(t, []string{"first", "0 1", "2", "3", "4"}, w.tried(), "one that is larger than a batch goes alone")
	})
}

func TestBatchMayWaitForCompany(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newTower(t, func(c *batch.Config) { c.MaxWait, c.MaxSize = time.Second, 3 })
		w.do("a")
		require.Empty(t, w.inFlight())
		time.Sleep(999 * time.Millisecond)
		w.do("b")
		require.Empty(t, w.inFlight())
		time.Sleep(time.Millisecond)
		require.Equal(t, []string{"a b"}, w.inFlight(), "the oldest has waited long enough")
		w.land(nil, nil)
		w.doMany("full", 3)
		require.Equal(t, []string{"full0 full1 full2"}, w.inFlight(), "a full batch does not wait")
		w.landAll()
	})
}

// Batches in flight never share a lane, and what came later on a lane never
// overtakes.
func TestLanes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newTower(t, func(c *batch.Config) { c.MaxFlushes = 8 })
		one, two, three := []batch.LockStripe{1}, []batch.LockStripe{2}, []batch.LockStripe{64}
		w.begin(t.Context(), "1", one, 1)
		require.Equal(t, []string{"1"}, w.inFlight())
		w.begin(t.Context(), "1+2", []batch.LockStripe{1, 2}, 1)
		w.begin(t.Context(), "2", two, 1)
		w.begin(t.Context(), "3", three, 1)
		require.Equal(t, []string{"1", "3"}, w.inFlight(), "the lane of 2 is wanted by one that came before it")
		w.land(nil, nil)
		require.Equal(t, []string{"3", "1+2 2"}, w.inFlight(), "one batch may use a lane more than once")
		w.landAll()
	})
}

// A manager made Alike keeps operations of other lanes out of a batch, and in order.
func TestAlike(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newTower(t, func(c *batch.Config) { c.MaxFlushes = 2 })
		w.SameStripesOnly()
		one, two, both := []batch.LockStripe{1}, []batch.LockStripe{2}, []batch.LockStripe{1, 2}
		w.begin(t.Context(), "1a", one, 1)
		w.begin(t.Context(), "1b", one, 1)
		w.begin(t.Context(), "2a", two, 1)
		require.Equal(t, []string{"1a", "2a"}, w.inFlight())
		w.begin(t.Context(), "2b", two, 1)
		w.begin(t.Context(), "1c", one, 1)
		w.begin(t.Context(), "1+2", both, 1)
		w.begin(t.Context(), "1d", one, 1)
		w.land(nil, nil)
		require.Equal(t, []string{"2a", "1b 1c"}, w.inFlight(), "1+2 came before 1d")
		w.land(nil, nil)
		require.Equal(t, []string{"1b 1c", "2b"}, w.inFlight())
		w.landAll()
		require.Equal(t, []string{"1a", "2a", "1b 1c", "2b", "1+2", "1d"}, w.tried())
	})
}

// A batch leaves beside others when it is worth it, up to the bound; a smaller
// one waits and grows.
func TestBatchesBesideEachOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newTower(t, func(c *batch.Config) { c.ConcurrentSize, c.MaxFlushes = 3, 3 })
		w.do("alone")
		small := w.doMany("s", 2)
		require.Equal(t, []string{"alone"}, w.inFlight())
		w.do("third")
		require.Equal(t, []string{"alone", "s0 s1 third"}, w.inFlight())
		w.begin(t.Context(), "large", nil, 5)
		require.Equal(t, []string{"alone", "s0 s1 third", "large"}, w.inFlight())
		w.begin(t.Context(), "beyond", nil, 5)
		require.Len(t, w.inFlight(), 3)
		require.Equal(t, batch.Status{Waiting: 5, InFlight: 3}, w.Status())
		w.land(nil, nil)
		require.Equal(t, []string{"s0 s1 third", "large", "beyond"}, w.inFlight())
		open(t, small[0])
		w.landAll()
		require.NoError(t, outcome(t, small[0]))
	})
}

// When the system is quiet an operation is done by the goroutine that wants it.
func TestQuietManagerWakesNobody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newTower(t)
		var ran string
		w.answer = func([]string) ([]error, error) {
			ran = string(debug.Stack())
			return nil, nil
		}
		require.NoError(t, w.Do(t.Context(), "a", nil, 1))
		require.Contains(t, ran, "TestQuietManagerWakesNobody")
	})
}

// Every operation is done once, in the order of its lane, whatever the others
// do.
func TestOrderWithinALane(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newTower(t, func(c *batch.Config) { c.MaxSize, c.MaxFlushes, c.QueueSize = 3, 4, 20 })
		const lanes, each = 7, 30
		for i := range each {
			for lane := range lanes {
				w.begin(t.Context(), fmt.Sprintf("%d:%d", lane, i), []batch.LockStripe{batch.LockStripeOf(int64(lane))}, 1)
			}
		}
		w.landAll()
		next := map[string]int{}
		for _, op := range strings.Fields(strings.Join(w.tried(), " ")) {
			lane, number, _ := strings.Cut(op, ":")
			require.Equal(t, fmt.Sprint(next[lane]), number, "lane %s", lane)
			next[lane]++
		}
		require.Len(t, next, lanes)
		for lane, n := range next {
			require.Equal(t, each, n, "lane %s", lane)
		}
	})
}

func TestCallersBlockWhenTheQueueIsFull(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newTower(t, func(c *batch.Config) { c.QueueSize, c.MaxSize = 2, 2 })
		w.do("flying")
		w.doMany("waiting", 2)
		ctx, leave := context.WithCancel(t.Context())
		impatient, patient := w.begin(ctx, "impatient", nil, 1), w.do("patient")
		require.Equal(t, batch.Status{Waiting: 2, Blocked: 2, InFlight: 1}, w.Status())
		leave()
		require.ErrorIs(t, outcome(t, impatient), context.Canceled)
		open(t, patient)
		w.landAll()
		require.NoError(t, outcome(t, patient))
		require.NotContains(t, strings.Join(w.tried(), " "), "impatient")
	})
}

// The end of the caller's context withdraws what has not left, and only that.
func TestCallerThatLeaves(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newTower(t)
		ctx, leave := context.WithCancel(t.Context())
		flying, waiting := w.begin(ctx, "flying", nil, 1), w.begin(ctx, "waiting", nil, 1)
		other := w.do("other")
		leave()
		withdrawn := outcome(t, waiting)
		require.ErrorIs(t, withdrawn, context.Canceled)
		require.ErrorIs(t, withdrawn, batch.ErrWithdrawn)
		open(t, flying)
		w.land([]error{errBad}, nil)
		require.ErrorIs(t, outcome(t, flying), errBad, "what has left is answered with what became of it")
		w.landAll()
		require.NoError(t, outcome(t, other))
		require.Equal(t, []string{"flying", "other"}, w.tried())
		require.ErrorIs(t, w.Do(ctx, "late", nil, 1), context.Canceled)
	})
}

func TestCloseDrains(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newTower(t, func(c *batch.Config) { c.QueueSize = 2 })
		flying, waiting := w.do("flying"), w.doMany("waiting", 2)
		blocked := w.do("blocked")
		closed := make(chan error, 1)
		go func() { closed <- w.Close(t.Context()) }()
		open(t, closed)
		require.ErrorIs(t, w.Do(t.Context(), "late", nil, 1), batch.ErrClosed)
		w.landAll()
		for _, out := range append(waiting, flying, blocked) {
			require.NoError(t, outcome(t, out))
		}
		require.NoError(t, outcome(t, closed))
		require.NoError(t, w.Close(t.Context()), "closing twice is fine")
	})
}

func TestCloseOfAnIdleManager(t *testing.T) {
	bubble(t, func(t *testing.T) {
		require.NoError(t, newTower(t).Close(t.Context()))
	})
}

// What waits for company leaves at the close.
func TestCloseDoesNotWaitForCompany(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newTower(t, func(c *batch.Config) { c.MaxWait = time.Hour })
		out, closed := w.do("a"), make(chan error, 1)
		go func() { closed <- w.Close(t.Context()) }()
		synctest.Wait()
		w.landAll()
		require.NoError(t, outcome(t, out))
		require.NoError(t, outcome(t, closed))
	})
}

func TestCloseGivesUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newTower(t)
		out := w.do("stuck")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, w.Close(ctx), context.DeadlineExceeded)
		w.landAll()
		require.NoError(t, outcome(t, out))
	})
}
