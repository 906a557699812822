package bench

import (
	"slices"

	"github.com/belfry-mq/belfry/pkg/bench/load"
)

// median returns the middle value, or the mean of the two middle values.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}

// medianOf returns a result with the median of each figure, or nil for fewer than two runs. It
// has the errors of all runs.
func medianOf(runs []Result) *Result {
	if len(runs) < 2 {
		return nil
	}
	number := func(of func(r *Result) float64) float64 {
		var values []float64
		for i := range runs {
			values = append(values, of(&runs[i]))
		}
		return median(values)
	}
	m := &Result{Scenario: runs[0].Scenario, Errors: map[string]int{}}
	m.Rate = number(func(r *Result) float64 { return r.Rate })
	m.Messages = int(number(func(r *Result) float64 { return float64(r.Messages) }))
	m.Seconds = number(func(r *Result) float64 { return r.Seconds })
	m.Requests = int(number(func(r *Result) float64 { return float64(r.Requests) }))
	for i := range runs {
		for kind, n := range runs[i].Errors {
			m.Errors[kind] += n
		}
	}
	for _, l := range runs[0].Latencies {
		latency := func(of func(l load.Latency) float64) float64 {
			return number(func(r *Result) float64 {
				i := slices.IndexFunc(r.Latencies, func(other load.Latency) bool { return other.Of == l.Of })
				if i < 0 {
					return 0
				}
				return of(r.Latencies[i])
			})
		}
		m.Latencies = append(m.Latencies, load.Latency{
			Of: l.Of, Count: int(latency(func(l load.Latency) float64 { return float64(l.Count) })),
			P50: latency(func(l load.Latency) float64 { return l.P50 }), P95: latency(func(l load.Latency) float64 { return l.P95 }),
			P99: latency(func(l load.Latency) float64 { return l.P99 }), Max: latency(func(l load.Latency) float64 { return l.Max }),
		})
	}
	if !slices.ContainsFunc(runs, func(r Result) bool { return r.Baseline == nil }) {
		b := *runs[0].Baseline
		b.Rate = number(func(r *Result) float64 { return r.Baseline.Rate })
		b.Ratio = number(func(r *Result) float64 { return r.Baseline.Ratio })
		m.Baseline = &b
	}
	return m
}
