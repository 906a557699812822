package backoff

import (
	"sync"
	"time"
)

// Counters count, for each key, the attempts without success in a row, and decide when the next attempt of
// a key is. All callers of a key share that instant. Counters may be used by several goroutines.
type Counters[K comparable] struct {
	mu sync.Mutex
	m  map[K]*counter
}

type counter struct {
	failed int
	used   time.Time
	// at is the instant of the next attempt. An instant in the past means that the next one is not
	// decided yet.
	at time.Time
	// counted is the latest instant whose attempts were counted.
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

// Next returns when the next attempt of a key is. Callers that ask before that instant get the same, so a
// key costs one attempt and not one for each caller. random is in [0, 1), as for Policy.Delay.
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

// Fail counts the attempts at the instant at as one failure. The first caller for an instant runs first,
// before any other caller continues.
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

// Forget drops the keys that were not used since then.
func (b *Counters[K]) Forget(since time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, state := range b.m {
		if state.used.Before(since) {
			delete(b.m, key)
		}
	}
}

// Failed returns the number of failures in a row, for each key that has any.
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
