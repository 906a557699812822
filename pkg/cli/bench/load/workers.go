package load

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// Workers are goroutines that share one context. The first error of a worker ends the context.
type Workers struct {
	// Context ends after Stop or after the first error of a worker.
	Context context.Context //nolint:containedctx // it is the lifetime of the workers
	group   *errgroup.Group
	cancel  context.CancelFunc
}

// NewWorkers returns a group without workers. The end of ctx ends the group.
func NewWorkers(ctx context.Context) *Workers {
	ctx, cancel := context.WithCancel(ctx)
	group, ctx := errgroup.WithContext(ctx)
	return &Workers{Context: ctx, group: group, cancel: cancel}
}

// Go starts a worker. If the context of the group has ended, the error of a context does not count as a failure.
func (w *Workers) Go(work func(ctx context.Context) error) {
	w.group.Go(func() error {
		err := work(w.Context)
		if w.Context.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
			return nil
		}
		return err
	})
}

// Wait blocks until all workers have returned, and returns the first error.
func (w *Workers) Wait() error {
	defer w.cancel()
	return w.group.Wait()
}

// Stop ends the workers, waits for them and returns the first error.
func (w *Workers) Stop() error {
	w.cancel()
	return w.group.Wait()
}

// Pacer decides when the requests of all producers start.
type Pacer struct {
	start, end time.Time
	// gap is the time between two requests in nanoseconds. 0 means a closed loop.
	gap float64
	// taken counts the planned starts that Next has assigned to callers. sent counts the planned starts that Next has
	// returned. Both are 0 in a closed loop.
	taken, sent atomic.Int64
}

// NewPacer returns a pacer from start to end. Each request has batch messages. rate is the number of messages per
// second; 0 means a closed loop.
func NewPacer(start, end time.Time, rate float64, batch int) *Pacer {
	p := &Pacer{start: start, end: end}
	if rate > 0 {
		p.gap = float64(batch) / rate * float64(time.Second)
	}
	return p
}

func (p *Pacer) open() bool { return p.gap > 0 }

// planned returns the planned start of request k.
func (p *Pacer) planned(k int64) time.Time { return p.start.Add(time.Duration(float64(k) * p.gap)) }

// Next blocks until the planned start of the next request and returns this start. In a closed loop, it returns the
// current time at once. ok is false after the end of the pacer or of ctx.
func (p *Pacer) Next(ctx context.Context) (start time.Time, ok bool) {
	now := time.Now()
	if ctx.Err() != nil || !now.Before(p.end) {
		return now, false
	}
	if !p.open() {
		return now, true
	}
	start = p.planned(p.taken.Add(1) - 1)
	if !start.Before(p.end) {
		return start, false
	}
	if wait := start.Sub(now); wait > 0 && Pause(ctx, wait) != nil {
		return start, false
	}
	p.sent.Add(1)
	return start, true
}

// Unsent calls f with the planned starts before end whose requests were not sent.
func (p *Pacer) Unsent(end time.Time, f func(start time.Time)) {
	if !p.open() {
		return
	}
	total := int64(math.Ceil(float64(end.Sub(p.start)) / p.gap))
	for k := p.sent.Load(); k < total; k++ {
		f(p.planned(k))
	}
}

// Pause blocks for d. If ctx ends first, Pause returns the error of ctx.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
