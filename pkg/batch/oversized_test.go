package batch_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/batch"
)

// Of the oversized operations that wait, only the oldest keeps its stripes from younger
// operations, whatever it waits for. Each becomes the oldest, so none waits forever.
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
			bubble(t, func(t *testing.T) {
				h := newHarness(t, func(c *batch.Config) { c.MaxFlushes = test.flights })
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

// An oversized operation that waits does not end the batch of the others.
func TestOversizedOperationsDoNotSplitABatch(t *testing.T) {
	for _, flights := range []int{1, 2} {
		t.Run(fmt.Sprint(flights), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				h := newHarness(t, func(c *batch.Config) { c.MaxFlushes = flights })
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
