// Package groupcommit decides what group commit (pkg/engine/batch) does with a failed flush, gives errors
// their codes, and measures flushes. It is imported by pkg/engine/store and the other packages below it.
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

// unknownOutcome says that a COMMIT was sent and its answer never came.
type unknownOutcome struct{ error }

func (e unknownOutcome) Unwrap() error { return e.error }

// CommitError marks the error of a COMMIT that must not be repeated. An error that the database sent
// stays as it is, because the transaction did not happen, and so does the error of a pipeline that was
// not sent. After any other error the outcome is unknown, and judge makes the flush fail.
func CommitError(err error) error {
	var refused *pgconn.PgError
	if err == nil || errors.As(err, &refused) || pgconn.SafeToRetry(err) {
		return err
	}
	return unknownOutcome{err}
}

// judge says what becomes of a flush that failed. The database refuses a bad value each time, so the
// flush is split until the call with the value fails alone. A deadlock or a lost connection passes,
// so the flush is sent again. Time-outs and a full disk concern all callers, so all of them fail.
func judge(err error) batch.Verdict {
	var unknown unknownOutcome
	var coded *queue.Error
	switch {
	case errors.As(err, &unknown), errors.Is(err, context.DeadlineExceeded):
		return batch.Fail
	case postgres.Retryable(err):
		return batch.Retry
	case postgres.SQLState(err) == postgres.PartitionGone:
		return batch.Split // only for the calls that push to it
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
			Message: "the server is stopping; send the request again, to another instance",
		}
	case errors.Is(err, batch.ErrWithdrawn):
		return &queue.Error{
			Code: queue.CodeOverloaded, RetryAfter: postgres.RetryAfter, Err: err,
			Message: "the database does not keep up with what is waiting (batch.queue_size); nothing was done: send the request again",
		}
	case errors.As(err, &panicked):
		return &queue.Error{Code: queue.CodeInternal, Message: "internal error", Err: err}
	default:
		return postgres.Wrap(err)
	}
}

// Metrics are the metrics of flushes, by operation: push, ack, claim, take (a pop with autoAck),
// transaction, and held (an ack or a transaction that waits for a contended cursor by itself).
type Metrics struct {
	reg             prometheus.Registerer
	calls, size     *prometheus.HistogramVec
	seconds         *prometheus.HistogramVec
	splits, retries *prometheus.CounterVec
	failures        *prometheus.CounterVec
	// managers return the figures of each manager. NewManager adds to them.
	managers []func() Figures
}

// Figures are the load of an operation, and what its flushes did since the start.
type Figures struct {
	Op string
	batch.Status
	// Flushes is the number of flushes that committed, with Calls calls of the total Size. All of them took
	// Duration.
	Flushes, Calls, Size int64
	Duration             time.Duration
	// Splits, Retries and Failures count the flushes that failed as a whole, by what followed.
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
		size:  histogram("belfry_batch_size", "Messages committed together, 16 KiB of pushed payloads counting as one more; of pops, messages asked for, each at most batch.max_size.", counts),
		seconds: histogram("belfry_batch_flush_duration_seconds", "Duration of a flush.",
			[]float64{.0005, .001, .002, .005, .01, .02, .05, .1, .25, .5, 1, 5}),
		splits:   counter("belfry_batch_splits_total", "Batches that failed and were split to find the culprit."),
		retries:  counter("belfry_batch_retries_total", "Batches that failed for a passing reason and were sent again."),
		failures: counter("belfry_batch_failures_total", "Batches whose callers got an error."),
	}
}

// NewManager returns the manager of op. It judges failed flushes by judge, and its flushes are measured.
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
	// sums are what the metrics count, for Figures.
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
	gauge("belfry_batch_queue_depth", "Messages that wait for a flush, where a call counts at most batch.max_size.", func(s batch.Status) int { return s.Waiting })
	gauge("belfry_batch_queue_size", "The largest queue depth (batch.queue_size), and as much again for calls above batch.max_size. More calls are blocked.", func(batch.Status) int { return queueSize })
	gauge("belfry_batch_blocked_callers", "Callers for whom there is no room.", func(s batch.Status) int { return s.Blocked })
	gauge("belfry_batch_flushes_in_flight", "Flushes in flight.", func(s batch.Status) int { return s.InFlight })
}
