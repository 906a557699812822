// Package backoff computes and waits out the delays between attempts.
//
// A Policy gives a constant delay for the first attempts and an exponentially growing delay after
// them, up to a maximum. Jitter keeps many waiters from retrying at the same time. Randomness is an
// argument, so Delay is pure. Counters apply a Policy to each of many keys. Sleep is the only function of
// the package that reads a clock.
package backoff

import (
	"context"
	"math"
	"time"
)

// Policy describes how the delay grows.
type Policy struct {
	// Initial is the delay after each of the first Threshold attempts.
	Initial time.Duration
	// Max is the longest delay, jitter included.
	Max time.Duration
	// Threshold is the number of attempts after which the delay begins to grow.
	Threshold int
	// Multiplier is the factor by which the delay grows with each further attempt.
	// 1 keeps the delay constant.
	Multiplier float64
	// Jitter is the share of the delay that randomness may remove. 0 means 0.1.
	Jitter float64
}

// defaultJitter is the Jitter of a policy that names none.
const defaultJitter = 0.1

// Delay returns the delay after the given number of attempts without success, from
// 1. random is in [0, 1) and shortens the delay by at most Jitter. It never
// lengthens the delay, so Max always holds.
func (p Policy) Delay(attempts int, random float64) time.Duration {
	jitter := p.Jitter
	if jitter == 0 {
		jitter = defaultJitter
	}
	grown := float64(p.Initial) * math.Pow(p.Multiplier, float64(max(0, attempts-p.Threshold)))
	delay := math.Min(grown, float64(p.Max))
	return time.Duration(delay * (1 - jitter*random))
}

// Sleep blocks for d and returns nil. If ctx ends first, it returns ctx.Err() at
// once. If d is not positive, it does not block and returns ctx.Err().
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
