package groupcommit

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfry-mq/belfry/pkg/batch"
)

// Metrics are the metrics of flushes, by operation: push, ack, claim, take (a pop with autoAck),
// transaction, and held (an ack or a transaction that waits for a contended cursor by itself).
type Metrics struct {
	reg             prometheus.Registerer
	calls, size     *prometheus.HistogramVec
	seconds         *prometheus.HistogramVec
	splits, retries *prometheus.CounterVec
	failures        *prometheus.CounterVec
}

// NewMetrics registers the metrics with reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	counts := []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10000}
	histogram := func(name, help string, buckets []float64) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, []string{"op"})
		reg.MustRegister(h)
		return h
	}
	counter := func(name, help string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"op"})
		reg.MustRegister(c)
		return c
	}
	return &Metrics{
		reg:   reg,
		calls: histogram("belfry_batch_calls", "Calls committed together.", counts),
		size:  histogram("belfry_batch_size", "Messages committed together; of pops, messages asked for.", counts),
		seconds: histogram("belfry_batch_flush_duration_seconds", "Duration of a flush.",
			[]float64{.0005, .001, .002, .005, .01, .02, .05, .1, .25, .5, 1, 5}),
		splits:   counter("belfry_batch_splits_total", "Batches that failed and were split to find the culprit."),
		retries:  counter("belfry_batch_retries_total", "Batches that failed for a passing reason and were sent again."),
		failures: counter("belfry_batch_failures_total", "Batches whose callers got an error."),
	}
}

// NewManager returns the manager of op. It judges failed flushes by judge, and its flushes are measured.
func NewManager[T any](m *Metrics, op string, cfg batch.Config, flush batch.FlushFunc[T]) *batch.Manager[T] {
	manager := batch.New(cfg, flush, judge, &observer{
		calls: m.calls.WithLabelValues(op), size: m.size.WithLabelValues(op), seconds: m.seconds.WithLabelValues(op),
		failed: map[batch.Verdict]prometheus.Counter{
			batch.Split: m.splits.WithLabelValues(op), batch.Retry: m.retries.WithLabelValues(op),
			batch.Fail: m.failures.WithLabelValues(op),
		},
	})
	m.observeStatus(op, manager.Status)
	return manager
}

type observer struct {
	calls, size, seconds prometheus.Observer
	failed               map[batch.Verdict]prometheus.Counter
}

func (o *observer) Flushed(ops, size int, took time.Duration) {
	o.calls.Observe(float64(ops))
	o.size.Observe(float64(size))
	o.seconds.Observe(took.Seconds())
}

func (o *observer) Failed(v batch.Verdict) { o.failed[v].Inc() }

// observeStatus registers the gauges of the manager of op.
func (m *Metrics) observeStatus(op string, status func() batch.Status) {
	gauge := func(name, help string, value func(batch.Status) int) {
		m.reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: name, Help: help, ConstLabels: prometheus.Labels{"op": op},
		}, func() float64 { return float64(value(status())) }))
	}
	gauge("belfry_batch_queue_depth", "Size of what waits for a flush.", func(s batch.Status) int { return s.Waiting })
	gauge("belfry_batch_blocked_callers", "Callers for whom there is no room.", func(s batch.Status) int { return s.Blocked })
	gauge("belfry_batch_flushes_in_flight", "Flushes in flight.", func(s batch.Status) int { return s.InFlight })
}
