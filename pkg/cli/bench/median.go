package bench

import (
	"slices"

	"github.com/belfry-mq/belfry/pkg/cli/bench/load"
)

// median returns the middle value, or the mean of the two middle values.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// medianOf returns a result with the median of each figure, or nil for fewer than two runs. Errors has the sum of all
// runs.
func medianOf(runs []Result) *Result {
	if len(runs) < 2 {
		return nil
	}
	number := func(figure func(r *Result) float64) float64 {
		var values []float64
		for i := range runs {
			values = append(values, figure(&runs[i]))
		}
		return median(values)
	}
	m := &Result{
		Scenario: runs[0].Scenario,
		Errors:   map[string]int{},
		Rate:     number(func(r *Result) float64 { return r.Rate }),
		Messages: int(number(func(r *Result) float64 { return float64(r.Messages) })),
		Seconds:  number(func(r *Result) float64 { return r.Seconds }),
		Requests: int(number(func(r *Result) float64 { return float64(r.Requests) })),
	}
	for i := range runs {
		for kind, n := range runs[i].Errors {
			m.Errors[kind] += n
		}
	}
	for _, l := range runs[0].Latencies {
		l.Count = int(number(func(r *Result) float64 { return float64(r.latency(l.Of).Count) }))
		l.P50 = number(func(r *Result) float64 { return r.latency(l.Of).P50 })
		l.P95 = number(func(r *Result) float64 { return r.latency(l.Of).P95 })
		l.P99 = number(func(r *Result) float64 { return r.latency(l.Of).P99 })
		l.Max = number(func(r *Result) float64 { return r.latency(l.Of).Max })
		m.Latencies = append(m.Latencies, l)
	}
	if !slices.ContainsFunc(runs, func(r Result) bool { return r.Baseline == nil }) {
		b := *runs[0].Baseline
		b.Rate = number(func(r *Result) float64 { return r.Baseline.Rate })
		b.Ratio = number(func(r *Result) float64 { return r.Baseline.Ratio })
		m.Baseline = &b
	}
	return m
}

// latency returns the latency with a name, or a zero Latency.
func (r *Result) latency(name string) load.Latency {
	for _, l := range r.Latencies {
		if l.Of == name {
			return l
		}
	}
	return load.Latency{}
}
