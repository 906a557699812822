package spool

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfry-mq/belfry/pkg/engine/batch"
)

// Metrics are the metrics of a Spool.
type Metrics struct {
	reg    prometheus.Registerer
	writes prometheus.Histogram
}

// NewMetrics registers the metrics with reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{reg: reg, writes: prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "belfry_spool_write_seconds", Help: "Duration of one durable write of pushes to the spool.",
		Buckets: prometheus.ExponentialBuckets(0.0005, 2, 12),
	})}
	reg.MustRegister(m.writes)
	return m
}

// watch registers the gauges of the content of the spool.
func (m *Metrics) watch(stats func() Stats) {
	for _, gauge := range []struct {
		name, help string
		value      func(Stats) float64
	}{
		{"belfry_spool_messages", "Messages in the spool that wait for the end of push maintenance.", func(s Stats) float64 { return float64(s.Messages) }},
		{"belfry_spool_rejected_messages", "Messages of the spool that the database refused.", func(s Stats) float64 { return float64(s.Rejected) }},
		{"belfry_spool_bytes", "Size of the messages in the spool.", func(s Stats) float64 { return float64(s.Bytes) }},
	} {
		m.reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: gauge.name, Help: gauge.help}, func() float64 { return gauge.value(stats()) }))
	}
}

// Flushed implements batch.Observer.
func (m *Metrics) Flushed(_, _ int, took time.Duration) { m.writes.Observe(took.Seconds()) }

// Failed implements batch.Observer.
func (m *Metrics) Failed(batch.Verdict) {}
