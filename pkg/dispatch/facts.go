package dispatch

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/belfry-mq/belfry/pkg/backoff"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// maxFacts bounds what is known; a full table is emptied, and the next requests
// look for themselves.
const maxFacts = 100_000

// fact is what a look left behind for a key: nothing is due before until (zero:
// nothing in sight). While looking it says nothing yet.
type fact struct {
	looking bool
	until   time.Time
	// learnt is when the look ended.
	learnt time.Time
}

// facts hold what is known to be empty. A look begins a fact before it asks the
// database and settles it afterwards; whatever is announced in between drops it,
// so that a fact is never older than the last announcement. Nor is it older than
// life: a request whose timeout is shorter has no fallback of its own.
type facts struct {
	life time.Duration

	mu sync.Mutex
	m  map[key]*fact
}

func newFacts(life time.Duration) *facts { return &facts{life: life, m: map[key]*fact{}} }

func (f *facts) begin(k key) *fact {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.m) >= maxFacts {
		clear(f.m)
	}
	begun := &fact{looking: true}
	f.m[k] = begun
	return begun
}

func (f *facts) settle(k key, begun *fact, until time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.m[k] == begun {
		begun.looking, begun.until, begun.learnt = false, until, time.Now()
	}
}

// empty reports whether nothing is due for k now, and until when.
func (f *facts) empty(k key, now time.Time) (until time.Time, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	known := f.m[k]
	if known == nil || known.looking {
		return time.Time{}, false
	}
	if !known.until.IsZero() && !now.Before(known.until) || now.Sub(known.learnt) >= f.life {
		delete(f.m, k)
		return time.Time{}, false
	}
	return known.until, true
}

func (f *facts) drop(keys ...key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, k := range keys {
		delete(f.m, k)
	}
}

func (f *facts) dropAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.m)
}

// backoffs count, by group, the looks in vain since something last happened.
type backoffs struct {
	mu sync.Mutex
	m  map[queue.Target]*backoffState
}

type backoffState struct {
	empties int
	used    time.Time
	// at is when the group looks next; past: not decided yet. last is the instant
	// that was counted last.
	at, last time.Time
}

func newBackoffs() *backoffs { return &backoffs{m: map[queue.Target]*backoffState{}} }

func (b *backoffs) reset(t queue.Target) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.m, t)
}

// next returns when the group looks next. Whoever begins to wait before then
// looks at the same instant, so that a group costs one look, not one for each
// request.
func (b *backoffs) next(t queue.Target, now time.Time, policy backoff.Policy) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	state := b.m[t]
	if state == nil {
		state = &backoffState{}
		b.m[t] = state
	}
	if !state.at.After(now) {
		state.at = now.Add(policy.Delay(state.empties+1, rand.Float64()))
	}
	state.used = now
	return state.at
}

// grow counts the looks at the instant at as one in vain. first is called by
// the first who comes, before any of the others goes on.
func (b *backoffs) grow(t queue.Target, at time.Time, first func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	state := b.m[t]
	if state == nil { // a delivery has reset it since
		state = &backoffState{}
		b.m[t] = state
	}
	if state.last.Equal(at) {
		return
	}
	state.empties++
	state.used, state.last = time.Now(), at
	first()
}

// forget drops the states that nobody used since.
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
		if state.empties > 0 {
			out[t] = state.empties
		}
	}
	return out
}
