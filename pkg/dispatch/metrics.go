package dispatch

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/belfry-mq/belfry/pkg/dispatch/plan"
)

// Metrics are the metrics of this package.
type Metrics struct {
	reg prometheus.Registerer

	preflights, preflightTimeouts, viable, assignments, doubleAssignments prometheus.Counter
	splits, panics, displaced                                             prometheus.Counter
	preflightSeconds, preflightIntents, partitionsFound                   prometheus.Histogram
	skipped, wakes, announced, woken, refused                             *prometheus.CounterVec
	ratio                                                                 prometheus.Gauge
}

// NewMetrics registers the metrics with reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	register := promauto.With(reg)
	counter := func(name, help string) prometheus.Counter {
		return register.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	vector := func(name, help string, labels ...string) *prometheus.CounterVec {
		return register.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return register.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	}
	counts := []float64{0, 1, 2, 5, 10, 20, 50, 100, 150, 200, 500}
	m := &Metrics{
		reg:               reg,
		preflights:        counter("belfry_smart_poll_preflight_queries_total", "Preflight queries made."),
		preflightTimeouts: counter("belfry_smart_poll_preflight_timeouts_total", "Preflights that exceeded smart_poll.preflight_timeout."),
		preflightSeconds: histogram("belfry_smart_poll_preflight_duration_seconds", "Duration of a preflight query.",
			[]float64{.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 5}),
		preflightIntents:  histogram("belfry_smart_poll_preflight_intentions_checked", "Waiting requests a round planned for.", counts),
		partitionsFound:   histogram("belfry_smart_poll_preflight_partitions_found", "Due partitions a round found.", counts),
		skipped:           vector("belfry_smart_poll_intentions_skipped_total", "Waiting requests a round had nothing for.", "reason"),
		viable:            counter("belfry_smart_poll_intentions_viable_total", "Waiting requests a round had something for."),
		assignments:       counter("belfry_smart_poll_partition_assignments_total", "Partitions assigned to waiting requests."),
		doubleAssignments: counter("belfry_smart_poll_double_assignment_errors_total", "Partitions nearly assigned twice; always 0."),
		splits:            counter("belfry_dispatch_round_splits_total", "Statements of a round that failed and were halved to find the culprit."),
		panics:            counter("belfry_dispatch_panics_total", "Rounds that panicked; their requests got an error."),
		refused:           vector("belfry_dispatch_refused_total", "Requests that were not allowed to wait, by the limit: all requests, the caller's share or the group's part of the caller's requests.", "limit"),
		displaced:         counter("belfry_dispatch_displaced_total", "Waiting requests that were answered early, to make room for another caller or group."),
		wakes:             vector("belfry_dispatch_wakes_total", "Wakes of waiting requests, by source and outcome; arrival is the first probe.", "source", "outcome"),
		announced:         vector("belfry_dispatch_announcements_total", "Announced partitions, by source.", "source"),
		woken:             vector("belfry_dispatch_woken_total", "Waiting requests woken, by the source of the announcement.", "source"),
		ratio: register.NewGauge(prometheus.GaugeOpts{
			Name: "belfry_smart_poll_query_reduction_ratio", Help: "Waiting requests per probed target, in the last round.",
		}),
	}
	for reason := range refusalTexts {
		m.refused.WithLabelValues(string(reason))
	}
	for _, reason := range []plan.Outcome{
		plan.SkipNoPartitions, plan.SkipPartitionUnavailable, plan.SkipLeaseTaken, plan.SkipWindowBuffer, plan.SkipDelayed, plan.SkipPaused,
	} {
		m.skipped.WithLabelValues(string(reason))
	}
	return m
}

// observe registers the metrics that a scrape reads from the dispatcher.
func (m *Metrics) observe(d *Dispatcher) {
	register := promauto.With(m.reg)
	gauge := func(name, help string, value func() float64) {
		register.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	gauge("belfry_dispatch_intents_waiting", "Requests waiting now.", func() float64 { return float64(d.Waiting()) })
	gauge("belfry_dispatch_refusals_held", "Refused requests whose answer is delayed for about a second.",
		func() float64 { return float64(len(d.delayedRefusals)) })
	register.NewCounterFunc(prometheus.CounterOpts{
		Name: "belfry_dispatch_woken_by_timer_total", Help: "Waiting requests woken because a due instant came.",
	}, func() float64 { return float64(d.Readiness.WokenByTimer()) })
	gauge("belfry_dispatch_backoff_groups", "Groups backing off because the listener is not proven.",
		func() float64 { return float64(len(d.backoffs.Failed())) })
}
