package heap_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belfry-mq/belfry/pkg/process/heap"
)

type element struct{ rank, place int }

func (e *element) Before(other *element) bool { return e.rank < other.rank }
func (e *element) Place() *int                { return &e.place }

// After any sequence of Put and Remove, the first element has the lowest rank, and each element stores its index plus 1.
func TestTheFirstElementIsBeforeAllOthers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		elements := make([]element, 20)
		var h heap.Heap[*element]
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			e := &elements[rapid.IntRange(0, len(elements)-1).Draw(t, "element")]
			if rapid.Bool().Draw(t, "put") {
				e.rank = rapid.IntRange(0, 9).Draw(t, "rank")
				h.Put(e)
				require.NotZero(t, e.place)
			} else {
				h.Remove(e)
				require.Zero(t, e.place)
			}
			for i, e := range h {
				require.Equal(t, i+1, e.place)
			}
			if len(h) > 0 {
				require.Equal(t, slices.MinFunc(h, func(a, b *element) int { return a.rank - b.rank }).rank, h[0].rank)
			}
		}
		in := 0
		for _, e := range elements {
			in += min(1, e.place)
		}
		require.Len(t, h, in)
	})
}
