package readiness

import (
	"sync"
	"time"
)

// maxEntries bounds the known-empty entries. A full table is cleared, and the next waiters probe
// for themselves.
const maxEntries = 100_000

// NextDue says how long until something of a target is due again. The zero value: no such instant
// is known.
type NextDue struct {
	Known bool
	In    time.Duration
}

// Add keeps the earlier of the two instants.
func (n *NextDue) Add(in time.Duration) {
	if !n.Known || in < n.In {
		n.Known, n.In = true, in
	}
}

// Observation is one probe of a target, and after it the known-empty entry of the target.
type Observation struct {
	// done is false during the probe.
	done bool
	// until is when something of the target is due. Zero: no such instant is known.
	until time.Time
	// learnt is when the probe ended.
	learnt time.Time
}

// emptyTargets holds the known-empty entries.
type emptyTargets struct {
	maxAge time.Duration

	mu sync.Mutex
	m  map[Key]*Observation
}

func (e *emptyTargets) observe(k Key) *Observation {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.m) >= maxEntries {
		clear(e.m)
	}
	o := &Observation{}
	e.m[k] = o
	return o
}

// set does nothing if o was dropped, or replaced by a later probe.
func (e *emptyTargets) set(k Key, o *Observation, until time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.m[k] == o {
		o.done, o.until, o.learnt = true, until, time.Now()
	}
}

// known reports whether nothing is due for k now, and until when.
func (e *emptyTargets) known(k Key, now time.Time) (until time.Time, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	o := e.m[k]
	if o == nil || !o.done {
		return time.Time{}, false
	}
	if !o.until.IsZero() && !now.Before(o.until) || now.Sub(o.learnt) >= e.maxAge {
		delete(e.m, k)
		return time.Time{}, false
	}
	return o.until, true
}

func (e *emptyTargets) drop(keys ...Key) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, k := range keys {
		delete(e.m, k)
	}
}

func (e *emptyTargets) dropAll() {
	e.mu.Lock()
	defer e.mu.Unlock()
	clear(e.m)
}
