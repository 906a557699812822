package stats

import (
	"context"
	"math"
	"slices"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/postgres"
)

// Overview holds sums over all queues.
type Overview struct {
	Queues, Partitions, Namespaces, Tasks int64
	Counts                                Counts
	// TimeLag (in seconds) and OffsetLag (in messages) describe the partitions with
	// messages that some group is not done with. Both are zero without such a partition.
	TimeLag, OffsetLag api.Spread
}

// Overview returns sums over the queues whose names match a pattern of allowed. A nil allowed
// matches all queues. The cost is O(partitions). Errors: CodeUnavailable.
func (r *Reader) Overview(ctx context.Context, allowed []string) (Overview, error) {
	queues, err := r.queues(ctx, QueueFilter{Allowed: allowed})
	found := &lags{}
	if err == nil {
		err = r.count(ctx, queues, found)
	}
	if err != nil {
		return Overview{}, postgres.Wrapf(err, "summing up the queues")
	}
	o := Overview{
		Queues:     int64(len(queues)),
		Namespaces: int64(len(sumTags(queues, func(q *Queue) string { return q.Namespace }))),
		Tasks:      int64(len(sumTags(queues, func(q *Queue) string { return q.Task }))),
		TimeLag:    distribution(found.ages),
		OffsetLag:  distribution(found.offsets),
	}
	for i := range queues {
		o.Partitions += queues[i].Partitions
		o.Counts.add(queues[i].Counts)
	}
	return o, nil
}

// distribution returns the spread of values, and sorts values. The median of an even number
// of values is the mean of the two values in the middle.
func distribution[N int64 | float64](values []N) api.Spread {
	if len(values) == 0 {
		return api.Spread{}
	}
	slices.Sort(values)
	number := func(i int) float64 { return float64(values[i]) }
	var sum float64
	for i := range values {
		sum += number(i)
	}
	last := len(values) - 1
	round := func(x float64) int64 { return int64(math.Round(x)) }
	return api.Spread{
		Avg: round(sum / float64(len(values))), Median: round((number(last/2) + number((last+1)/2)) / 2),
		Min: round(number(0)), Max: round(number(last)),
	}
}
