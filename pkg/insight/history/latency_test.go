package history

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// A percentile is at most one bucket above the true one, also of a sum of histograms.
func TestPercentilesAreExactToOneBucket(t *testing.T) {
	t.Parallel()
	var parts [3]Latency
	var all []time.Duration
	for i := range 3000 {
		d := time.Duration(rand.Float64() * rand.Float64() * float64(time.Minute))
		all = append(all, d)
		parts[i%3].Observe(d)
	}
	var sum Latency
	for i := range parts {
		sum.add(&parts[i])
	}
	var read []Bucketed
	for _, element := range sum.elements() {
		read = append(read, Bucketed{int(element >> countBits), element & (1<<countBits - 1)})
	}
	slices.Sort(all)
	for _, p := range []float64{.01, .5, .9, .95, .99, 1} {
		want, got := all[int(p*float64(len(all)))-1], Percentile(read, p)
		require.GreaterOrEqual(t, got, want, p)
		require.LessOrEqual(t, float64(got), 1.26*float64(want)+float64(64*time.Microsecond), p)
	}
	require.Zero(t, Percentile(nil, .5))
}

// Each duration is in the bucket that ends after it, and the ends rise.
func TestEachDurationHasABucket(t *testing.T) {
	t.Parallel()
	for d := time.Microsecond; d < 4*time.Hour; d += d/7 + time.Microsecond {
		b := bucketOf(d)
		require.Less(t, d, upperEnd(b)+time.Microsecond, "%s", d)
		if b > 0 {
			require.GreaterOrEqual(t, d, upperEnd(b-1).Truncate(time.Microsecond), "%s", d)
		}
	}
	require.Zero(t, bucketOf(-time.Hour))
	require.Equal(t, buckets-1, bucketOf(1000*time.Hour))
}

// No count is lost while the counts are taken.
func TestNoCountIsLost(t *testing.T) {
	t.Parallel()
	r := NewRecorder(10)
	const workers, each = 4, 5000
	var working sync.WaitGroup
	for range workers {
		working.Go(func() {
			for range each {
				r.Pushed([]queue.PushItem{{Queue: "a"}, {Queue: "b"}, {Queue: "a"}}, []queue.PushResult{{}, {}, {Duplicate: true}})
			}
		})
	}
	taken := map[Key]*tally{}
	take := func() {
		now, _ := r.take()
		for key, count := range now {
			addTo(taken, key, count)
		}
	}
	for range 200 {
		take()
	}
	working.Wait()
	take()
	require.EqualValues(t, workers*each, taken[Key{Queue: "a"}].PushMessages)
	require.EqualValues(t, workers*each, taken[Key{Queue: "a"}].PushRequests, "a request counts once for a queue")
	require.EqualValues(t, workers*each, taken[Key{Queue: "b"}].PushMessages)
	require.EqualValues(t, workers*each, r.Totals()["a"].PushMessages)
}
