package store_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// What group commit costs when nobody else is there: pushes through the manager
// and without it take turns, so that whatever else the machine does hurts both.
// Reports the medians in milliseconds and their ratio.
func BenchmarkLonePush(b *testing.B) {
	bench := newBench(b)
	items := []queue.PushItem{{Queue: "q", Partition: "p", Payload: []byte(`{}`)}}
	var managed, alone []time.Duration
	for b.Loop() {
		began := time.Now()
		_, err := bench.Push(b.Context(), items)
		require.NoError(b, err)
		between := time.Now()
		require.NoError(b, bench.PushAlone(b.Context(), items))
		managed, alone = append(managed, between.Sub(began)), append(alone, time.Since(between))
	}
	median := func(times []time.Duration) float64 {
		slices.Sort(times)
		return float64(times[len(times)/2].Microseconds()) / 1000
	}
	b.ReportMetric(median(managed), "managed-ms")
	b.ReportMetric(median(alone), "alone-ms")
	b.ReportMetric(median(managed)/median(alone), "ratio")
	b.ReportMetric(0, "ns/op")
}
