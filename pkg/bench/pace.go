package bench

import (
	"context"
	"math"
	"sync/atomic"
	"time"
)

// pace says when the requests of all producers start, until an end.
type pace struct {
	start, end time.Time
	// gap is the time between two requests in nanoseconds; 0 is the closed loop.
	gap float64
	// taken and sent count the instants of an open loop.
	taken, sent atomic.Int64
}

// newPace: rate is messages per second in requests of batch, 0 for a closed loop.
func newPace(start, end time.Time, rate float64, batch int) *pace {
	p := &pace{start: start, end: end}
	if rate > 0 {
		p.gap = float64(batch) / rate * float64(time.Second)
	}
	return p
}

func (p *pace) open() bool { return p.gap > 0 }

// due returns the instant of a request.
func (p *pace) due(k int64) time.Time { return p.start.Add(time.Duration(float64(k) * p.gap)) }

// next waits for the instant of the next request and returns it; in a closed
// loop that is now. ok is false when the time is up.
func (p *pace) next(ctx context.Context) (due time.Time, ok bool) {
	now := time.Now()
	if ctx.Err() != nil || !now.Before(p.end) {
		return now, false
	}
	if !p.open() {
		return now, true
	}
	due = p.due(p.taken.Add(1) - 1)
	if !due.Before(p.end) {
		return due, false
	}
	if wait := due.Sub(now); wait > 0 && pause(ctx, wait) != nil {
		return due, false
	}
	p.sent.Add(1)
	return due, true
}

// missed calls f with the instants before end at which nothing was sent.
func (p *pace) missed(end time.Time, f func(due time.Time)) {
	if !p.open() {
		return
	}
	total := int64(math.Ceil(float64(end.Sub(p.start)) / p.gap))
	for k := p.sent.Load(); k < total; k++ {
		f(p.due(k))
	}
}

// pause waits, or returns earlier with ctx's error.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
