package totals

import (
	"context"
	"sync"
	"time"

	"github.com/belfry-mq/belfry/pkg/postgres"
)

const (
	// rest times what a pass took is the pause after it, if that is more than minPause.
	rest     = 3
	minPause = 100 * time.Millisecond
	// patience is how long Read waits for a pass if there is an older snapshot.
	patience = 100 * time.Millisecond
	// changePatience is the same after Expire. It is enough for the rest of a short pass, for the pause and for a pass.
	changePatience = 250 * time.Millisecond
)

// Counter counts when somebody reads. It is safe for concurrent use.
type Counter struct {
	// count makes a pass.
	count func(ctx context.Context) (*Snapshot, error)

	mu     sync.Mutex
	latest *Snapshot // nil: there was no pass
	// next is when the pause ends.
	next time.Time
	// expired is when Expire was called last. Read waits for a later snapshot.
	expired time.Time
	// running is the pass that runs or waits for the end of the pause; nil: none.
	running *run
	// watchers are told of new numbers.
	watchers map[*func()]bool
	// owed is the latest read that got a snapshot from before the read; zero: none. It counts only while somebody watches.
	owed time.Time
}

// run is one pass.
type run struct {
	// done is closed when found and err are set.
	done  chan struct{}
	found *Snapshot
	err   error
}

// New returns a Counter on pool. lateAfter is problems.late_after.
func New(pool *postgres.Pool, lateAfter time.Duration) *Counter {
	return newCounter(func(ctx context.Context) (*Snapshot, error) { return count(ctx, pool, lateAfter) })
}

func newCounter(count func(ctx context.Context) (*Snapshot, error)) *Counter {
	return &Counter{count: count, watchers: map[*func()]bool{}}
}

// Read returns the last snapshot, and makes sure that it is not much older than the pause if a pass is short. It blocks at most
// for a tenth of a second, after Expire for a quarter, or for a whole pass if there is no snapshot yet. Errors: CodeUnavailable, and that of ctx.
func (c *Counter) Read(ctx context.Context) (*Snapshot, error) {
	asked := time.Now()
	enough, enoughAfterChange := time.After(patience), time.After(changePatience)
	for {
		c.mu.Lock()
		last := c.latest
		if last != nil && time.Now().Before(c.next) && !last.began.Before(c.expired) {
			c.oweLocked(last, asked)
			c.mu.Unlock()
			return last, nil
		}
		pass, wait := c.startLocked(), enough
		switch {
		case last == nil:
			wait = nil
		case last.began.Before(c.expired):
			wait = enoughAfterChange
		}
		c.mu.Unlock()
		select {
		case <-pass.done:
			if pass.err != nil {
				return nil, pass.err
			}
		case <-wait:
			c.mu.Lock()
			c.oweLocked(last, asked)
			c.mu.Unlock()
			return last, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Latest returns the last snapshot, or nil if there is none. It does not wait, and starts nothing.
func (c *Counter) Latest() *Snapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.latest
}

// Expire makes the next Read wait for a pass that begins now or later, as long as Read waits for a pass. An operator who has changed
// something wants to see it.
func (c *Counter) Expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expired = time.Now()
	c.next = c.expired
}

// Fresh returns a snapshot that was at most maxAge old at the call. It blocks until there is one: for the rest of the pause, and
// for a pass. Errors: CodeUnavailable, and that of ctx.
func (c *Counter) Fresh(ctx context.Context, maxAge time.Duration) (*Snapshot, error) {
	least := time.Now().Add(-maxAge)
	for {
		c.mu.Lock()
		if last := c.latest; last != nil && !last.began.Before(least) {
			c.mu.Unlock()
			return last, nil
		}
		pass := c.startLocked()
		c.mu.Unlock()
		select {
		case <-pass.done:
			if pass.err != nil {
				return nil, pass.err
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Watch calls changed when a pass found other numbers than an earlier reader got. changed must not block. The caller calls stop.
func (c *Counter) Watch(changed func()) (stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := &changed
	c.watchers[key] = true
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.watchers, key)
	}
}

// oweLocked makes sure that a pass follows a read that got a snapshot from before it, while somebody watches.
func (c *Counter) oweLocked(got *Snapshot, asked time.Time) {
	if len(c.watchers) == 0 || !got.began.Before(asked) {
		return
	}
	c.owed = asked
	c.startLocked()
}

// startLocked returns the pass that runs. It starts one if there is none. It begins when the pause is over.
func (c *Counter) startLocked() *run {
	if c.running == nil {
		c.running = &run{done: make(chan struct{})}
		go c.run(c.running)
	}
	return c.running
}

// run makes a pass. Its readers may leave: others get what it finds.
func (c *Counter) run(pass *run) {
	c.mu.Lock()
	pause := time.Until(c.next)
	c.mu.Unlock()
	<-time.After(pause)
	began := time.Now()
	pass.found, pass.err = c.count(context.Background())
	c.mu.Lock()
	defer c.mu.Unlock()
	defer close(pass.done)
	c.running = nil
	c.next = time.Now().Add(max(minPause, rest*time.Since(began)))
	if pass.err != nil {
		return
	}
	before := c.latest
	pass.found.began = began
	c.latest = pass.found
	if c.owed.IsZero() {
		return
	}
	if !c.owed.After(began) {
		c.owed = time.Time{}
	} else if len(c.watchers) > 0 {
		c.startLocked()
	}
	if !same(before, pass.found) {
		for changed := range c.watchers {
			(*changed)()
		}
	}
}
