package stats

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/belfry-mq/belfry/pkg/postgres"
)

// Overview is everything at a glance.
type Overview struct {
	Queues, Partitions, Namespaces, Tasks int64
	Counts                                Counts
	// TimeLag in whole seconds and OffsetLag in messages, over the partitions that
	// some group is not done with; zero when there is none.
	TimeLag, OffsetLag Spread
}

// Spread describes values; all are rounded to whole numbers.
type Spread struct{ Avg, Median, Min, Max int64 }

// Overview sums up all queues. It costs O(partitions). Errors: CodeUnavailable.
func (r *Reader) Overview(ctx context.Context) (Overview, error) {
	queues, err := r.queues(ctx, QueueFilter{})
	found := &lags{}
	if err == nil {
		err = r.count(ctx, queues, found)
	}
	if err != nil {
		return Overview{}, postgres.Wrap(fmt.Errorf("summing up the queues: %w", err))
	}
	o := Overview{
		Queues:     int64(len(queues)),
		Namespaces: int64(len(sumTags(queues, func(q *Queue) string { return q.Namespace }))),
		Tasks:      int64(len(sumTags(queues, func(q *Queue) string { return q.Task }))),
		TimeLag:    spread(found.ages),
		OffsetLag:  spread(found.offsets),
	}
	for i := range queues {
		o.Partitions += queues[i].Partitions
		o.Counts.add(queues[i].Counts)
	}
	return o, nil
}

// spread sorts values. The median of an even number of them is the mean of the
// two in the middle.
func spread[N int64 | float64](values []N) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	slices.Sort(values)
	number := func(i int) float64 { return float64(values[i]) }
	var sum float64
	for i := range values {
		sum += number(i)
	}
	last := len(values) - 1
	round := func(x float64) int64 { return int64(math.Round(x)) }
	return Spread{
		Avg: round(sum / float64(len(values))), Median: round((number(last/2) + number((last+1)/2)) / 2),
		Min: round(number(0)), Max: round(number(last)),
	}
}
