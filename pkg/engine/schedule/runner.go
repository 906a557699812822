package schedule

import (
	"bytes"
	"context"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/process/backoff"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/process/tracing"
	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// readInterval is the minimum time between two reads that notifications cause, because every role of the database can send
	// notifications.
	readInterval = 100 * time.Millisecond
	// standbyDelay is how much later than the instance before it an instance handles an instant.
	standbyDelay = 500 * time.Millisecond
	// maxStandbyDelay is the longest such delay. So an instant is at most two seconds late if other instances have died.
	maxStandbyDelay = 3 * standbyDelay
	// contendedDelay is the pause after another session had locked a schedule.
	contendedDelay = 50 * time.Millisecond
)

// retryPolicy is the pause after a failure.
var retryPolicy = backoff.Policy{Initial: 50 * time.Millisecond, Max: 500 * time.Millisecond, Threshold: 1, Multiplier: 2}

// Config is the configuration of a Runner.
type Config struct {
	// FallbackInterval is the longest time between two reads of the next instant.
	FallbackInterval time.Duration
	// PollInterval is this time while the listener is not proven.
	PollInterval time.Duration
}

// Deps are the dependencies of a Runner.
type Deps struct {
	Pool *postgres.Pool
	// Events publishes changes of schedules, and resyncs.
	Events *events.Bus
	// Instance is the id of this instance. Peers returns the ids of the other live instances.
	Instance queue.ID
	Peers    func() []queue.ID
	// Proven reports whether the listener is proven (docs/design.md).
	Proven func() bool
	// Handled is called after this instance has written the state of schedules. It may be nil.
	Handled func()
	Metrics *Metrics
	// Tracer begins a trace with each message. It may be nil.
	Tracer *tracing.Tracer
	Log    *zap.Logger
}

// Runner stores the messages of schedules. Its methods may be called from several goroutines.
type Runner struct {
	events.Nop
	Deps
	cfg   Config
	rules rules
	// changed holds a signal if the next instant may have changed.
	changed events.Signal

	// Only Run uses the fields below.

	// failures is the number of consecutive failures.
	failures int
	// floor is an instant before which no schedule is due, or zero. fullAt is the time of the last read without a floor.
	floor  time.Time
	fullAt time.Time

	// clockStep is added to the clock of the database, in microseconds. Tests change it.
	clockStep atomic.Int64
	// beforeTick is called before each statement that stores messages. Tests set it.
	beforeTick func()
}

// New returns a Runner. Run does its work.
func New(deps Deps, cfg Config) *Runner {
	r := &Runner{Deps: deps, cfg: cfg, changed: events.NewSignal(), beforeTick: func() {}}
	deps.Events.Subscribe(r)
	return r
}

// OnSchedule implements events.Handler.
func (r *Runner) OnSchedule() { r.changed.Set() }

// OnResync implements events.Handler. Before a resync, notifications may have been lost.
func (r *Runner) OnResync(string, events.Origin) { r.changed.Set() }

// Run handles instants until ctx ends. It returns nil. It logs failures and tries again.
func (r *Runner) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		changed := false
		select {
		case <-ctx.Done():
			return nil
		case <-r.changed:
			changed = true
			r.floor = time.Time{}
		case <-timer.C:
		}
		began := time.Now()
		next, err := r.step(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			next = r.handleFailure(err)
		} else {
			r.failures = 0
		}
		nextAt := time.Now().Add(next)
		if changed {
			_ = backoff.Sleep(ctx, min(readInterval-time.Since(began), next)) // ctx is checked above
		}
		timer.Reset(time.Until(nextAt))
	}
}

func (r *Runner) handleFailure(err error) (next time.Duration) {
	r.failures++
	r.floor = time.Time{}
	next = retryPolicy.Delay(r.failures, 0)
	r.Metrics.failures.Inc()
	level := r.Log.Warn
	if r.failures > 1 {
		level = r.Log.Debug // only the first of several failures is a warning
	}
	level("handling schedules failed; it will be tried again", zap.Duration("after", next), zap.Error(err))
	return next
}

// delay is how much later than the first instance this instance handles an instant.
func (r *Runner) delay() time.Duration {
	if !r.Proven() {
		return 0
	}
	before := 0
	for _, id := range r.Peers() {
		if bytes.Compare(id[:], r.Instance[:]) < 0 {
			before++
		}
	}
	return min(time.Duration(before)*standbyDelay, maxStandbyDelay)
}

// step handles the instants that are due. It returns the time until the next step.
func (r *Runner) step(ctx context.Context) (next time.Duration, err error) {
	for {
		if time.Since(r.fullAt) >= r.idle() {
			r.floor = time.Time{} // a caller may have changed a schedule without a notification
		}
		found, err := r.read(ctx, r.delay())
		if err != nil {
			return 0, err
		}
		following, all, err := r.handle(ctx, &found)
		switch {
		case err != nil:
			return 0, err
		case !all: // another instance or a caller has changed or locked a schedule since it was read
			r.floor = time.Time{}
			return contendedDelay, nil
		case len(found.rows) < batchRows:
			r.floor = found.now
			if !following.IsZero() && following.Before(found.now) {
				r.floor = following // because of jitter, it is due at once
			}
			r.floor = r.floor.Add(-floorMargin)
			return r.wait(found.clock(), following), nil
		}
	}
}

// idle is the longest time between two reads of all schedules that are due.
func (r *Runner) idle() time.Duration {
	if !r.Proven() {
		return min(r.cfg.FallbackInterval, r.cfg.PollInterval)
	}
	return r.cfg.FallbackInterval
}

// wait returns the time from now until an instant of the same clock.
func (r *Runner) wait(now, instant time.Time) time.Duration {
	if instant.IsZero() {
		return r.idle()
	}
	return min(r.idle(), max(0, instant.Sub(now)))
}
