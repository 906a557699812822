package page

import (
	"cmp"
	"slices"

	"github.com/belfry-mq/belfry/pkg/client/api"
)

// Acked counts acknowledgments.
type Acked struct{ All, Failed, Retried int64 }

// Add adds counts by what the acknowledgments said.
func (a *Acked) Add(completed, failed, retried int64) {
	a.All, a.Failed, a.Retried = a.All+completed+failed+retried, a.Failed+failed, a.Retried+retried
}

// Median returns the median latency of queues in milliseconds, weighted by their deliveries.
func Median(queues []api.QueueDelays) float64 {
	sorted := slices.SortedFunc(slices.Values(queues), func(a, b api.QueueDelays) int { return cmp.Compare(a.P50Ms, b.P50Ms) })
	var total, before int64
	for i := range sorted {
		total += sorted[i].PopCount
	}
	for i := range sorted {
		if before += sorted[i].PopCount; before*2 >= total {
			return sorted[i].P50Ms
		}
	}
	return 0
}
