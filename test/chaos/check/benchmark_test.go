package check_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkRun judges correct runs. ns/item shows whether the time grows faster than the number of items.
func BenchmarkRun(b *testing.B) {
	for _, steps := range []int{10_000, 100_000, 400_000} {
		b.Run(fmt.Sprintf("steps=%d", steps), func(b *testing.B) {
			random := rand.New(rand.NewPCG(1, 2))
			m := newModel(random.IntN, 50, 3)
			for range steps {
				m.step()
				// Old deliveries and samples are dropped, or the model itself becomes slow.
				m.held = m.held[max(0, len(m.held)-100):]
				m.run.state.Samples = m.run.state.Samples[max(0, len(m.run.state.Samples)-10_000):]
			}
			r := m.drained()
			items := 0
			for i := range r.operations {
				items += len(r.operations[i].Items)
			}
			b.ResetTimer()
			for b.Loop() {
				require.Empty(b, r.judge())
			}
			b.ReportMetric(float64(items), "items")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(items), "ns/item")
		})
	}
}
