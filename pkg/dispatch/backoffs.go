package dispatch

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/belfry-mq/belfry/pkg/backoff"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// backoffs counts, for each target, the empty probes in a row. It is used while the listener is not
// proven.
type backoffs struct {
	mu sync.Mutex
	m  map[queue.Target]*backoffState
}

type backoffState struct {
	emptyProbes int
	used        time.Time
	// at is when all requests of the target probe next. An instant in the past means that the next
	// one is not decided yet.
	at time.Time
	// counted is the latest instant whose probes were counted.
	counted time.Time
}

func newBackoffs() *backoffs { return &backoffs{m: map[queue.Target]*backoffState{}} }

func (b *backoffs) reset(t queue.Target) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.m, t)
}

// next returns when the target is probed next. Requests that begin to wait before that instant
// share it, so the target costs one probe and not one for each request.
func (b *backoffs) next(t queue.Target, now time.Time, policy backoff.Policy) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	state := b.stateLocked(t)
	if !state.at.After(now) {
		state.at = now.Add(policy.Delay(state.emptyProbes+1, rand.Float64()))
	}
	state.used = now
	return state.at
}

// grow counts the probes at the instant at as one empty probe. The first caller for an instant runs
// first, before any other caller continues.
func (b *backoffs) grow(t queue.Target, at time.Time, first func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	state := b.stateLocked(t)
	if state.counted.Equal(at) {
		return
	}
	state.emptyProbes++
	state.used, state.counted = time.Now(), at
	first()
}

func (b *backoffs) stateLocked(t queue.Target) *backoffState {
	state := b.m[t]
	if state == nil {
		state = &backoffState{}
		b.m[t] = state
	}
	return state
}

// forget drops the states that were not used since then.
func (b *backoffs) forget(since time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for t, state := range b.m {
		if state.used.Before(since) {
			delete(b.m, t)
		}
	}
}

func (b *backoffs) snapshot() map[queue.Target]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make(map[queue.Target]int, len(b.m))
	for t, state := range b.m {
		if state.emptyProbes > 0 {
			out[t] = state.emptyProbes
		}
	}
	return out
}
