package sweep

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Counter counts the work by queue.
type Counter interface {
	// Removed counts deleted messages, by the rule that deleted them.
	Removed(queueName string, retention, completed, evicted int64)
	PartitionRemoved(queueName string)
}

// Metrics count the work of this instance. The table belfry.queue_sweep counts the work of all
// instances for each queue.
type Metrics struct {
	counts Counter

	deleted, runs, seconds, failures  *prometheus.CounterVec
	unread, expired, removed, skipped prometheus.Counter
	last, backlog                     *prometheus.GaugeVec
}

// NewMetrics registers the metrics with reg. The metrics also pass the work to counts.
func NewMetrics(reg prometheus.Registerer, counts Counter) *Metrics {
	auto := promauto.With(reg)
	counter := func(name, help string) prometheus.Counter {
		return auto.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	counters := func(name, help, label string) *prometheus.CounterVec {
		return auto.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	}
	gauges := func(name, help string) *prometheus.GaugeVec {
		return auto.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"job"})
	}
	m := &Metrics{
		counts:   counts,
		deleted:  counters("belfry_sweep_deleted_total", "Messages deleted, by the rule that deleted them.", "reason"),
		unread:   counter("belfry_sweep_deleted_unread_total", "Messages deleted that some consumer group had not consumed."),
		expired:  counter("belfry_sweep_expired_total", "Messages that expired unread, once for each consumer group."),
		skipped:  counter("belfry_sweep_skipped_unread_total", "Messages that stay for another group, and that the cursor of a consumer group was moved past unread."),
		removed:  counter("belfry_sweep_partitions_removed_total", "Empty partitions removed."),
		runs:     counters("belfry_sweep_runs_total", "Completed runs of this instance.", "job"),
		failures: counters("belfry_sweep_failures_total", "Failed runs, and partitions that a run skipped because of an error.", "job"),
		seconds:  counters("belfry_sweep_seconds_total", "Seconds spent in runs, pauses included.", "job"),
		last:     gauges("belfry_sweep_last_run_seconds", "Duration of the last run of this instance."),
		backlog:  gauges("belfry_sweep_backlog_partitions", "Partitions with work that the current run has found but not done."),
	}
	for _, rule := range deletionRules {
		m.deleted.WithLabelValues(rule)
	}
	for _, job := range []string{jobRetention, jobEviction, jobPartitions, jobAudit, jobHistory} {
		m.runs.WithLabelValues(job)
		m.failures.WithLabelValues(job)
		m.seconds.WithLabelValues(job)
		m.last.WithLabelValues(job)
		m.backlog.WithLabelValues(job)
	}
	return m
}
