// Package groupcommit decides what group commit (pkg/engine/batch) does with a failed flush, gives errors
// their codes, and measures flushes. pkg/engine/store and other packages below it import this package.
package groupcommit

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/belfry-mq/belfry/pkg/engine/batch"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// unknownOutcome means that a COMMIT was sent and its answer was lost.
type unknownOutcome struct{ error }

func (e unknownOutcome) Unwrap() error { return e.error }

// CommitError marks an error after which the transaction must not be repeated, because its outcome is
// unknown. Then judge makes the flush fail. CommitError returns an error that the database sent
// unchanged, because the transaction did not happen. It also returns the error of an unsent pipeline
// unchanged.
func CommitError(err error) error {
	var refused *pgconn.PgError
	if err == nil || errors.As(err, &refused) || pgconn.SafeToRetry(err) {
		return err
	}
	return unknownOutcome{err}
}

// judge decides what happens to a failed flush. The database refuses a bad value each time, so the
// flush is split until only the call with the bad value fails. A deadlock or a lost connection is
// temporary, so the flush is sent again. A timeout or a full disk affects all callers, so all of
// them get the error.
func judge(err error) batch.Verdict {
	var unknown unknownOutcome
	var coded *queue.Error
	switch {
	case errors.As(err, &unknown), errors.Is(err, context.DeadlineExceeded):
		return batch.Fail
	case postgres.Retryable(err):
		return batch.Retry
	case postgres.SQLState(err) == postgres.PartitionGone:
		return batch.Split // only the calls that push to this partition fail
	case errors.As(postgres.Wrap(err), &coded) && coded.Code == queue.CodeUnavailable:
		return batch.Fail
	default:
		return batch.Split
	}
}

// Wrap gives the error of a batched operation its code.
func Wrap(err error) error {
	var panicked *batch.PanicError
	switch {
	case errors.Is(err, batch.ErrClosed):
		return &queue.Error{
			Code: queue.CodeUnavailable, RetryAfter: postgres.RetryAfter, Err: err,
			Message: "the server is stopping; send the request again to another instance",
		}
	case errors.Is(err, batch.ErrWithdrawn):
		return &queue.Error{
			Code: queue.CodeOverloaded, RetryAfter: postgres.RetryAfter, Err: err,
			Message: "the database does not keep up with the waiting requests (batch.queue_size); nothing was done: send the request again",
		}
	case errors.As(err, &panicked):
		return &queue.Error{Code: queue.CodeInternal, Message: "internal error", Err: err}
	default:
		return postgres.Wrap(err)
	}
}

// Metrics are the metrics of flushes, by operation: push, ack, claim, take (a pop with autoAck),
// transaction, and held (an ack or a transaction that waits for a contended cursor).
type Metrics struct {
	reg             prometheus.Registerer
	calls, size     *prometheus.HistogramVec
	seconds         *prometheus.HistogramVec
	splits, retries *prometheus.CounterVec
	failures        *prometheus.CounterVec
	// managers return the figures of each manager. NewManager adds to them.
	managers []func() Figures
}

// Figures are the current load of an operation, and the totals of its flushes since the start of
// the process.
type Figures struct {
	Op string
	batch.Status
	// Flushes is the number of flushes that have ended. Calls, Size and Duration are their totals.
	Flushes, Calls, Size int64
	Duration             time.Duration
	// Splits, Retries and Failures count the flushes that failed as a whole, by their verdict.
	Splits, Retries, Failures int64
}

// Figures returns the figures of each manager, in the order of their creation.
func (m *Metrics) Figures() []Figures {
	all := make([]Figures, 0, len(m.managers))
	for _, figures := range m.managers {
		all = append(all, figures())
	}
	return all
}

// NewMetrics registers the metrics with reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	counts := []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10000}
	histogram := func(name, help string, buckets []float64) *prometheus.HistogramVec {
		return promauto.With(reg).NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, []string{"op"})
	}
	counter := func(name, help string) *prometheus.CounterVec {
		return promauto.With(reg).NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"op"})
	}
	return &Metrics{
		reg:   reg,
		calls: histogram("belfry_batch_calls", "Calls committed together.", counts),
		size:  histogram("belfry_batch_size", "Messages committed together. For pushes, each 16 KiB of payloads count as one more message. For pops, the requested messages count, at most batch.max_size for each pop.", counts),
		seconds: histogram("belfry_batch_flush_duration_seconds", "Duration of a flush.",
			[]float64{.0005, .001, .002, .005, .01, .02, .05, .1, .25, .5, 1, 5}),
		splits:   counter("belfry_batch_splits_total", "Batches that failed and were split to find the failing call."),
		retries:  counter("belfry_batch_retries_total", "Batches that failed for a temporary reason and were sent again."),
		failures: counter("belfry_batch_failures_total", "Batches whose callers got an error."),
	}
}

// NewManager returns the manager of op. It uses judge for failed flushes, and measures its flushes.
func NewManager[T any](m *Metrics, op string, cfg batch.Config, flush batch.FlushFunc[T]) *batch.Manager[T] {
	seen := &observer{
		calls: m.calls.WithLabelValues(op), size: m.size.WithLabelValues(op), seconds: m.seconds.WithLabelValues(op),
		failed: map[batch.Verdict]prometheus.Counter{
			batch.Split: m.splits.WithLabelValues(op), batch.Retry: m.retries.WithLabelValues(op),
			batch.Fail: m.failures.WithLabelValues(op),
		},
	}
	manager := batch.New(cfg, flush, judge, seen)
	m.observeStatus(op, manager.Status, cfg.QueueSize)
	m.managers = append(m.managers, func() Figures {
		f := seen.figures()
		f.Op, f.Status = op, manager.Status()
		return f
	})
	return manager
}

type observer struct {
	calls, size, seconds prometheus.Observer
	failed               map[batch.Verdict]prometheus.Counter

	mu sync.Mutex
	// sums are the totals for Figures.
	sums Figures
}

func (o *observer) figures() Figures {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.sums
}

func (o *observer) Flushed(ops, size int, took time.Duration) {
	o.mu.Lock()
	o.sums.Flushes++
	o.sums.Calls += int64(ops)
	o.sums.Size += int64(size)
	o.sums.Duration += took
	o.mu.Unlock()
	o.calls.Observe(float64(ops))
	o.size.Observe(float64(size))
	o.seconds.Observe(took.Seconds())
}

func (o *observer) Failed(v batch.Verdict) {
	o.failed[v].Inc()
	o.mu.Lock()
	defer o.mu.Unlock()
	switch v {
	case batch.Split:
		o.sums.Splits++
	case batch.Retry:
		o.sums.Retries++
	default:
		o.sums.Failures++
	}
}

// observeStatus registers the gauges of the manager of op.
func (m *Metrics) observeStatus(op string, status func() batch.Status, queueSize int) {
	gauge := func(name, help string, value func(batch.Status) int) {
		opts := prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: prometheus.Labels{"op": op}}
		promauto.With(m.reg).NewGaugeFunc(opts, func() float64 { return float64(value(status())) })
	}
	gauge("belfry_batch_queue_depth", "Messages that wait for a flush. A call counts at most batch.max_size.", func(s batch.Status) int { return s.Waiting })
	gauge("belfry_batch_queue_size", "The largest queue depth (batch.queue_size). Calls above batch.max_size have a second queue of the same size. Further calls are blocked.", func(batch.Status) int { return queueSize })
	gauge("belfry_batch_blocked_callers", "Callers that wait because the queue is full.", func(s batch.Status) int { return s.Blocked })
	gauge("belfry_batch_flushes_in_flight", "Flushes in flight.", func(s batch.Status) int { return s.InFlight })
}
