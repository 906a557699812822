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

	"github.com/belfry-mq/belfry/pkg/engine/batch"
)

// The first operation leaves at once. While it is in flight, new operations form the next batch.
// The next batch leaves when the first batch ends.
func TestFirstLeavesAtOnceAndTheNextGrows(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, h *harness) {
		began := time.Now()
		a := h.do("a")
		require.Equal(t, []string{"a"}, h.inFlight())
		b, c := h.do("b"), h.do("c")
		require.Equal(t, []string{"a"}, h.inFlight())
		h.land(nil, nil)
		require.NoError(t, outcome(t, a))
		require.Equal(t, []string{"b c"}, h.inFlight())
		requirePending(t, b)
		h.land(nil, nil)
		require.NoError(t, outcome(t, b))
		require.NoError(t, outcome(t, c))
		require.Zero(t, time.Since(began), "no operation waited for a timer")
	})
}

func TestEachOperationHasItsOwnOutcome(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, h *harness) {
		h.do("first")
		outs := h.doMany("m", 3)
		h.land(nil, nil)
		h.land([]error{nil, errBad, nil}, nil)
		require.NoError(t, outcome(t, outs[0]))
		require.ErrorIs(t, outcome(t, outs[1]), errBad)
		require.NoError(t, outcome(t, outs[2]))
		require.Equal(t, []string{"first", "m0 m1 m2"}, h.tried())
	})
}

func TestBatchIsBoundedBySize(t *testing.T) {
	inBubble(t, func(c *batch.Config) { c.MaxSize = 10 }, func(t *testing.T, h *harness) {
		h.do("first")
		for i, size := range []int{6, 4, 1, 50, 3} {
			h.begin(t.Context(), fmt.Sprint(i), nil, size)
		}
		h.landAll()
		require.Equal(t, []string{"first", "0 1", "2 4", "3"}, h.tried(), "an operation larger than a batch is sent alone")
	})
}

func TestBatchWaitsForMoreOperations(t *testing.T) {
	inBubble(t, func(c *batch.Config) { c.MaxWait, c.MaxSize = time.Second, 3 }, func(t *testing.T, h *harness) {
		h.do("a")
		require.Empty(t, h.inFlight())
		<-time.After(999 * time.Millisecond)
		h.do("b")
		require.Empty(t, h.inFlight())
		<-time.After(time.Millisecond)
		require.Equal(t, []string{"a b"}, h.inFlight(), "the oldest has waited long enough")
		h.land(nil, nil)
		h.doMany("full", 3)
		require.Equal(t, []string{"full0 full1 full2"}, h.inFlight(), "a full batch does not wait")
		h.landAll()
	})
}

// An oversized operation does not wait for MaxWait, and does not end this wait for regular
// operations.
func TestAnOversizedOperationDoesNotEndMaxWait(t *testing.T) {
	inBubble(t, func(c *batch.Config) { c.MaxFlushes, c.MaxWait = 2, time.Second }, func(t *testing.T, h *harness) {
		h.begin(t.Context(), "large1", nil, 100_000)
		h.begin(t.Context(), "large2", nil, 100_000)
		<-time.After(time.Minute)
		h.do("a")
		<-time.After(999 * time.Millisecond)
		h.do("b")
		require.Equal(t, []string{"large1"}, h.inFlight())
		<-time.After(time.Millisecond)
		require.Equal(t, []string{"large1", "a b"}, h.inFlight())
		h.landAll()
	})
}

// Batches in flight never share a stripe. A later operation on a stripe never overtakes an earlier
// operation on it.
func TestBatchesInFlightShareNoStripe(t *testing.T) {
	inBubble(t, func(c *batch.Config) { c.MaxFlushes = 8 }, func(t *testing.T, h *harness) {
		a, b, c := []batch.LockStripe{1}, []batch.LockStripe{2}, []batch.LockStripe{64}
		h.begin(t.Context(), "1", a, 1)
		require.Equal(t, []string{"1"}, h.inFlight())
		h.begin(t.Context(), "1+2", []batch.LockStripe{1, 2}, 1)
		h.begin(t.Context(), "2", b, 1)
		h.begin(t.Context(), "3", c, 1)
		require.Equal(t, []string{"1", "3"}, h.inFlight(), "an earlier operation waits for the stripe of 2")
		h.land(nil, nil)
		require.Equal(t, []string{"3", "1+2 2"}, h.inFlight(), "one batch may use a stripe more than once")
		h.landAll()
	})
}

// After SameStripesOnly, all operations of a batch have the same list of stripes. Operations keep
// their order.
func TestSameStripesOnly(t *testing.T) {
	inBubble(t, func(c *batch.Config) { c.MaxFlushes = 2 }, func(t *testing.T, h *harness) {
		h.SameStripesOnly()
		a, b, both := []batch.LockStripe{1}, []batch.LockStripe{2}, []batch.LockStripe{1, 2}
		h.begin(t.Context(), "1a", a, 1)
		h.begin(t.Context(), "1b", a, 1)
		h.begin(t.Context(), "2a", b, 1)
		require.Equal(t, []string{"1a", "2a"}, h.inFlight())
		h.begin(t.Context(), "2b", b, 1)
		h.begin(t.Context(), "1c", a, 1)
		h.begin(t.Context(), "1+2", both, 1)
		h.begin(t.Context(), "1d", a, 1)
		h.land(nil, nil)
		require.Equal(t, []string{"2a", "1b 1c"}, h.inFlight(), "1+2 came before 1d")
		h.land(nil, nil)
		require.Equal(t, []string{"1b 1c", "2b"}, h.inFlight())
		h.landAll()
		require.Equal(t, []string{"1a", "2a", "1b 1c", "2b", "1+2", "1d"}, h.tried())
	})
}

// A batch of ConcurrentSize leaves while other batches are in flight, up to MaxFlushes batches. A
// smaller batch waits for more operations.
func TestLargeBatchesLeaveConcurrently(t *testing.T) {
	inBubble(t, func(c *batch.Config) { c.ConcurrentSize, c.MaxFlushes = 3, 3 }, func(t *testing.T, h *harness) {
		h.do("alone")
		small := h.doMany("s", 2)
		require.Equal(t, []string{"alone"}, h.inFlight())
		h.do("third")
		require.Equal(t, []string{"alone", "s0 s1 third"}, h.inFlight())
		h.begin(t.Context(), "large", nil, 5)
		require.Equal(t, []string{"alone", "s0 s1 third", "large"}, h.inFlight())
		h.begin(t.Context(), "beyond", nil, 5)
		require.Len(t, h.inFlight(), 3)
		require.Equal(t, batch.Status{Waiting: 5, InFlight: 3}, h.Status())
		h.land(nil, nil)
		require.Equal(t, []string{"s0 s1 third", "large", "beyond"}, h.inFlight())
		requirePending(t, small[0])
		h.landAll()
		require.NoError(t, outcome(t, small[0]))
	})
}

// An operation above MaxSize takes long. Small operations do not wait for its flight, and do not wait for
// its space in the queue.
func TestSmallOperationsDoNotWaitForOversizedOnes(t *testing.T) {
	inBubble(t, func(c *batch.Config) { c.ConcurrentSize, c.MaxFlushes, c.QueueSize = 50, 3, 1000 }, func(t *testing.T, h *harness) {
		for _, name := range []string{"large1", "large2", "large3"} {
			h.begin(t.Context(), name, nil, 100_000)
		}
		require.Equal(t, []string{"large1", "large2"}, h.inFlight(), "one flight stays free for small operations")
		h.do("small1")
		require.Equal(t, []string{"large1", "large2", "small1"}, h.inFlight())
		second := h.do("small2")
		require.Equal(t, batch.Status{Waiting: 101, InFlight: 3}, h.Status())
		h.land(nil, nil)
		require.Equal(t, []string{"large2", "small1", "large3"}, h.inFlight())
		h.land(nil, nil)
		requirePending(t, second)
		h.land(nil, nil)
		require.Equal(t, []string{"large3", "small2"}, h.inFlight())
		h.landAll()
		require.NoError(t, outcome(t, second))
		require.Equal(t, batch.Status{}, h.Status())
	})
}

// Without load, the goroutine of the caller runs the flush.
func TestIdleManagerFlushesInTheGoroutineOfTheCaller(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, h *harness) {
		var ran string
		h.answer = func([]string) ([]error, error) {
			ran = string(debug.Stack())
			return nil, nil
		}
		require.NoError(t, h.Do(t.Context(), "a", nil, 1))
		require.Contains(t, ran, "TestIdleManagerFlushesInTheGoroutineOfTheCaller")
	})
}

// Every operation is done once. Operations with a common stripe keep their order.
func TestOrderWithinAStripe(t *testing.T) {
	inBubble(t, func(c *batch.Config) { c.MaxSize, c.MaxFlushes, c.QueueSize = 3, 4, 20 }, func(t *testing.T, h *harness) {
		const stripes, each = 7, 30
		for i := range each {
			for stripe := range stripes {
				h.begin(t.Context(), fmt.Sprintf("%d:%d", stripe, i), []batch.LockStripe{batch.LockStripeOf(int64(stripe))}, 1)
			}
		}
		h.landAll()
		next := map[string]int{}
		for _, op := range strings.Fields(strings.Join(h.tried(), " ")) {
			stripe, number, _ := strings.Cut(op, ":")
			require.Equal(t, fmt.Sprint(next[stripe]), number, "stripe %s", stripe)
			next[stripe]++
		}
		require.Len(t, next, stripes)
		for stripe, n := range next {
			require.Equal(t, each, n, "stripe %s", stripe)
		}
	})
}

func TestCallersBlockWhenTheQueueIsFull(t *testing.T) {
	inBubble(t, func(c *batch.Config) { c.QueueSize, c.MaxSize = 2, 2 }, func(t *testing.T, h *harness) {
		h.do("in-flight")
		h.doMany("waiting", 2)
		ctx, leave := context.WithCancel(t.Context())
		impatient, patient := h.begin(ctx, "impatient", nil, 1), h.do("patient")
		require.Equal(t, batch.Status{Waiting: 2, Blocked: 2, InFlight: 1}, h.Status())
		leave()
		require.ErrorIs(t, outcome(t, impatient), context.Canceled)
		requirePending(t, patient)
		h.landAll()
		require.NoError(t, outcome(t, patient))
		require.NotContains(t, strings.Join(h.tried(), " "), "impatient")
	})
}

// When the context of a caller ends, the manager withdraws the operation of this caller if it has
// not left. Other operations are not affected.
func TestEndOfTheContextWithdrawsAWaitingOperation(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, h *harness) {
		ctx, leave := context.WithCancel(t.Context())
		inFlight, waiting := h.begin(ctx, "in-flight", nil, 1), h.begin(ctx, "waiting", nil, 1)
		other := h.do("other")
		leave()
		withdrawn := outcome(t, waiting)
		require.ErrorIs(t, withdrawn, context.Canceled)
		require.ErrorIs(t, withdrawn, batch.ErrWithdrawn)
		requirePending(t, inFlight)
		h.land([]error{errBad}, nil)
		require.ErrorIs(t, outcome(t, inFlight), errBad, "an operation in flight receives its outcome")
		h.landAll()
		require.NoError(t, outcome(t, other))
		require.Equal(t, []string{"in-flight", "other"}, h.tried())
		require.ErrorIs(t, h.Do(ctx, "late", nil, 1), context.Canceled)
	})
}

func TestCloseWaitsForAllOperations(t *testing.T) {
	inBubble(t, func(c *batch.Config) { c.QueueSize = 2 }, func(t *testing.T, h *harness) {
		inFlight, waiting := h.do("in-flight"), h.doMany("waiting", 2)
		blocked := h.do("blocked")
		closed := make(chan error, 1)
		go func() { closed <- h.Close(t.Context()) }()
		requirePending(t, closed)
		require.ErrorIs(t, h.Do(t.Context(), "late", nil, 1), batch.ErrClosed)
		h.landAll()
		for _, out := range append(waiting, inFlight, blocked) {
			require.NoError(t, outcome(t, out))
		}
		require.NoError(t, outcome(t, closed))
		require.NoError(t, h.Close(t.Context()), "closing twice is fine")
	})
}

// A batch that waits for more operations leaves at Close.
func TestCloseEndsTheWaitForMoreOperations(t *testing.T) {
	inBubble(t, func(c *batch.Config) { c.MaxWait = time.Hour }, func(t *testing.T, h *harness) {
		out, closed := h.do("a"), make(chan error, 1)
		go func() { closed <- h.Close(t.Context()) }()
		synctest.Wait()
		h.landAll()
		require.NoError(t, outcome(t, out))
		require.NoError(t, outcome(t, closed))
	})
}

func TestCloseEndsWithItsContext(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, h *harness) {
		out := h.do("stuck")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, h.Close(ctx), context.DeadlineExceeded)
		h.landAll()
		require.NoError(t, outcome(t, out))
	})
}
