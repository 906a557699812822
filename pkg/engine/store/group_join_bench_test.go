package store_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/process/backoff"
)

// BenchmarkJoin measures the first pop of a group in a queue with many partitions, the join that
// follows it, and pushes to new partitions before and meanwhile.
func BenchmarkJoin(b *testing.B) {
	const partitions = 1_000_000
	s := newBench(b)
	s.drained(partitions, 1)
	n := 0
	push := func(until func() bool) (p99 time.Duration, pushes int) {
		var took []time.Duration
		for !until() {
			n++
			began := time.Now()
			s.push(fmt.Sprintf("new%d", n), "m")
			took = append(took, time.Since(began))
			require.NoError(b, backoff.Sleep(b.Context(), 5*time.Millisecond))
		}
		slices.Sort(took)
		return took[len(took)*99/100], len(took)
	}
	for i := range b.N {
		group := fmt.Sprintf("new%d", i)
		began := time.Now()
		quiet, _ := push(func() bool { return time.Since(began) > 20*time.Second })
		began = time.Now()
		require.Len(b, s.pop(request(group, 1)).Messages, 1)
		first := time.Since(began)
		var asked time.Time
		meanwhile, pushes := push(func() (joined bool) {
			if time.Since(asked) > time.Second {
				asked = time.Now()
				s.scan(`SELECT joined_upto IS NULL FROM belfry.consumer_group WHERE name = $1`, []any{group}, &joined)
			}
			return joined
		})
		b.ReportMetric(first.Seconds()*1000, "ms-first-pop")
		b.ReportMetric(time.Since(began).Seconds(), "s-join")
		b.ReportMetric(quiet.Seconds()*1000, "ms-p99-quiet")
		b.ReportMetric(meanwhile.Seconds()*1000, "ms-p99-meanwhile")
		b.ReportMetric(float64(pushes), "pushes-meanwhile")
		s.requireCursors(2 * (partitions + n))
	}
}
