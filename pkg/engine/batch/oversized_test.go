package batch_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/engine/batch"
)

// Among the waiting oversized operations, only the oldest reserves its stripes. Each oversized
// operation becomes the oldest at some time, so no operation waits forever.
func TestOnlyTheOldestOversizedOperationKeepsItsStripes(t *testing.T) {
	for _, test := range []struct {
		name string
		// common are stripes of every oversized operation.
		common  []batch.LockStripe
		flights int
	}{
		{"waiting for a flight", nil, 2},
		{"waiting for a stripe", []batch.LockStripe{100}, 4},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(c *batch.Config) { c.MaxFlushes = test.flights }, func(t *testing.T, h *harness) {
				oversized := func(name string, own batch.LockStripe) {
					h.begin(t.Context(), name, append([]batch.LockStripe{own}, test.common...), 100_000)
				}
				oversized("large1", 1)
				oversized("large2", 2)
				oversized("large3", 3)
				h.begin(t.Context(), "2", []batch.LockStripe{2}, 1)
				h.begin(t.Context(), "3a", []batch.LockStripe{3}, 1)
				require.Equal(t, []string{"large1", "3a"}, h.inFlight(), "2 waits for large2, and nothing waits for large3")
				h.land(nil, nil)
				h.begin(t.Context(), "3b", []batch.LockStripe{3}, 1)
				require.Equal(t, []string{"3a", "large2"}, h.inFlight(), "large3 is the oldest")
				h.land(nil, nil)
				h.land(nil, nil)
				require.ElementsMatch(t, []string{"large3", "2"}, h.inFlight(), "3b waits for large3")
				h.landAll()
			})
		})
	}
}

// A waiting oversized operation does not split the batch of regular operations.
func TestOversizedOperationsDoNotSplitABatch(t *testing.T) {
	for _, flights := range []int{1, 2} {
		t.Run(fmt.Sprint(flights), func(t *testing.T) {
			inBubble(t, func(c *batch.Config) { c.MaxFlushes = flights }, func(t *testing.T, h *harness) {
				for _, name := range []string{"first", "large1", "a", "large2", "b", "large3", "c"} {
					size := 1
					if strings.HasPrefix(name, "large") {
						size = 100_000
					}
					h.begin(t.Context(), name, nil, size)
				}
				h.landAll()
				require.Equal(t, []string{"first", "large1", "a b c", "large2", "large3"}, h.tried())
			})
		})
	}
}

// Oversized and regular operations have separate queues. A full queue of one kind does not block
// operations of the other kind.
func TestOversizedOperationsHaveTheirOwnQueue(t *testing.T) {
	inBubble(t, func(c *batch.Config) { c.MaxFlushes, c.QueueSize, c.ConcurrentSize = 2, 200, 100 }, func(t *testing.T, h *harness) {
		var all []<-chan error
		for i := range 4 {
			all = append(all, h.begin(t.Context(), fmt.Sprint("large", i), nil, 100_000))
		}
		require.Equal(t, batch.Status{Waiting: 200, Blocked: 1, InFlight: 1}, h.Status())
		all = append(all, h.do("small"))
		require.Equal(t, []string{"large0", "small"}, h.inFlight())
		for range 201 {
			all = append(all, h.do("more"))
		}
		require.Equal(t, batch.Status{Waiting: 400, Blocked: 2, InFlight: 2}, h.Status())
		closed := make(chan error, 1)
		go func() { closed <- h.Close(t.Context()) }()
		h.land(nil, nil)
		require.Equal(t, batch.Status{Waiting: 400, Blocked: 1, InFlight: 2}, h.Status(), "large3 has left the blocked list after large1 ended")
		h.landAll()
		for _, out := range append(all, closed) {
			require.NoError(t, outcome(t, out))
		}
		require.Equal(t, batch.Status{}, h.Status())
	})
}

// A blocked oversized operation leaves its list when its context ends.
func TestBlockedOversizedOperationIsWithdrawn(t *testing.T) {
	inBubble(t, func(c *batch.Config) { c.QueueSize = 100 }, func(t *testing.T, h *harness) {
		h.begin(t.Context(), "in-flight", nil, 500)
		ctx, leave := context.WithCancel(t.Context())
		waiting, blocked := h.begin(ctx, "waiting", nil, 500), h.begin(ctx, "blocked", nil, 500)
		h.begin(t.Context(), "patient", nil, 500)
		require.Equal(t, batch.Status{Waiting: 100, Blocked: 2, InFlight: 1}, h.Status())
		leave()
		require.ErrorIs(t, outcome(t, waiting), batch.ErrWithdrawn)
		require.ErrorIs(t, outcome(t, blocked), batch.ErrWithdrawn)
		require.Equal(t, batch.Status{Waiting: 100, InFlight: 1}, h.Status())
		h.landAll()
		require.Equal(t, []string{"in-flight", "patient"}, h.tried())
	})
}

// A waiting oversized operation does not make a batch of regular operations leave before it has
// ConcurrentSize.
func TestRegularOperationsFormABatchWhileAnOversizedOneWaits(t *testing.T) {
	inBubble(t, func(c *batch.Config) { c.MaxFlushes, c.ConcurrentSize = 4, 3 }, func(t *testing.T, h *harness) {
		stripes := []batch.LockStripe{1}
		h.begin(t.Context(), "large1", stripes, 100_000)
		h.begin(t.Context(), "large2", stripes, 100_000)
		h.doMany("s", 3)
		require.Equal(t, []string{"large1", "s0"}, h.inFlight())
		h.begin(t.Context(), "large3", nil, 100_000)
		require.Equal(t, []string{"large1", "s0", "large3"}, h.inFlight(), "an oversized batch leaves while others are in flight")
		h.do("s3")
		require.Equal(t, []string{"large1", "s0", "large3", "s1 s2 s3"}, h.inFlight())
		h.landAll()
	})
}
