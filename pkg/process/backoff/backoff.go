// Package backoff computes and waits out the delays between attempts.
//
// A Policy gives a constant delay for the first attempts and an exponentially growing delay after them, up to a maximum. Jitter
// keeps many waiters from retrying at the same time. The caller passes the random number, so Delay is a pure function. Counters
// apply a Policy to each of many keys. Only Sleep reads a clock.
package backoff

import (
	"context"
	"math"
	"sync"
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

// defaultJitter is the Jitter of a policy whose Jitter is 0.
const defaultJitter = 0.1

// Delay returns the delay after the given number of failed attempts, which is at least 1. random is in [0, 1) and shortens the
// delay by at most the share Jitter. So the delay never exceeds Max.
func (p Policy) Delay(attempts int, random float64) time.Duration {
	jitter := p.Jitter
	if jitter == 0 {
		jitter = defaultJitter
	}
	grown := float64(p.Initial) * math.Pow(p.Multiplier, float64(max(0, attempts-p.Threshold)))
	delay := math.Min(grown, float64(p.Max))
	return time.Duration(delay * (1 - jitter*random))
}

// Sleep blocks for d and returns nil. If ctx ends first, it returns ctx.Err() at once. If d is not positive, Sleep does not block
// and returns ctx.Err().
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

// Counters count the consecutive failed attempts of each key, and compute when the next attempt of a key is due. All callers of a
// key get the same instant. Several goroutines may use Counters.
type Counters[K comparable] struct {
	mu sync.Mutex
	m  map[K]*counter
}

type counter struct {
	failed int
	used   time.Time
	// at is when the next attempt is due. If it is in the past, Next computes a new instant.
	at time.Time
	// counted is the instant of the latest failure that Fail counted.
	counted time.Time
}

// NewCounters returns Counters without keys.
func NewCounters[K comparable]() *Counters[K] { return &Counters[K]{m: map[K]*counter{}} }

// Reset forgets the failures of a key after a success.
func (b *Counters[K]) Reset(key K) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.m, key)
}

// Next returns when the next attempt of a key is due. Until that instant every call for the key returns the same result. So the
// attempts of all callers are due at the same time, and Fail counts them as one attempt. random is in [0, 1), as for
// Policy.Delay.
func (b *Counters[K]) Next(key K, now time.Time, policy Policy, random float64) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	state := b.stateLocked(key)
	if !state.at.After(now) {
		state.at = now.Add(policy.Delay(state.failed+1, random))
	}
	state.used = now
	return state.at
}

// Fail counts all attempts at the instant at as one failure. The first call for an instant calls first. The other calls wait
// until first has returned.
func (b *Counters[K]) Fail(key K, at, now time.Time, first func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	state := b.stateLocked(key)
	if state.counted.Equal(at) {
		return
	}
	state.failed++
	state.used, state.counted = now, at
	first()
}

func (b *Counters[K]) stateLocked(key K) *counter {
	state := b.m[key]
	if state == nil {
		state = &counter{}
		b.m[key] = state
	}
	return state
}

// Forget drops the keys that nobody has used since the given time.
func (b *Counters[K]) Forget(since time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, state := range b.m {
		if state.used.Before(since) {
			delete(b.m, key)
		}
	}
}

// Failed returns the number of consecutive failures of each key that has failures.
func (b *Counters[K]) Failed() map[K]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make(map[K]int, len(b.m))
	for key, state := range b.m {
		if state.failed > 0 {
			out[key] = state.failed
		}
	}
	return out
}

// Pace limits how often an action runs: Burst times at once, and then once in each Interval. It is not safe for concurrent use.
type Pace struct {
	Interval time.Duration
	Burst    int

	// full is when the action can run Burst times at once again.
	full time.Time
}

// Next returns when the action may run next, and counts this run. The result is never before now.
func (p *Pace) Next(now time.Time) time.Time {
	if p.full.Before(now) {
		p.full = now
	}
	p.full = p.full.Add(p.Interval)
	if at := p.full.Add(-time.Duration(p.Burst) * p.Interval); at.After(now) {
		return at
	}
	return now
}

// Refund takes back a run that Next counted.
func (p *Pace) Refund() { p.full = p.full.Add(-p.Interval) }
