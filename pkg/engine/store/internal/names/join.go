package names

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/process/backoff"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlJoinPage      = sql.Query("engine/store/join_page")
	sqlJoiningGroups = sql.Query("engine/store/joining_groups")
)

const (
	// JoinPatience is how long a pop that finds nothing waits for the join of its group.
	JoinPatience = time.Second
	// joinPage is how many partitions one transaction of a join covers.
	joinPage = 500
	// joinRetry is the pause of a join after an error.
	joinRetry = time.Second
)

// errStopping is the answer of pops that wait for a join at the end of the instance.
var errStopping = &queue.Error{
	Code: queue.CodeUnavailable, RetryAfter: postgres.RetryAfter,
	Message: "the server is stopping; send the request again, to another instance",
}

// joinRuns are the joins that go on in this instance, by group. One goroutine goes on with each, so
// the pops that wait for a join hold no connection.
type joinRuns struct {
	mu    sync.Mutex
	steps map[queue.Target]*joinStep
	// ctx ends at stop. done counts the goroutines.
	ctx  context.Context
	stop context.CancelFunc
	done sync.WaitGroup
}

// joinStep is one page of a join. ended is closed after it; then done and err say how.
type joinStep struct {
	ended   chan struct{}
	waiting int
	done    bool
	err     error
}

func newJoinStep() *joinStep { return &joinStep{ended: make(chan struct{})} }

func (r *joinRuns) start() {
	r.steps = map[queue.Target]*joinStep{}
	r.ctx, r.stop = context.WithCancel(context.Background())
}

// Close ends the joins that go on in this instance. A later pop, or another instance, goes on.
func (d *Directory) Close() {
	d.runs.mu.Lock()
	d.runs.stop()
	d.runs.mu.Unlock()
	d.runs.done.Wait()
}

// GoOn starts the join of a group in the background, unless it is running, and waits for its next page, for
// atMost at most. done: every partition has its cursor. Errors: that of the page, and the end of ctx.
func (d *Directory) GoOn(ctx context.Context, target queue.Target, atMost time.Duration) (done bool, err error) {
	step := d.stepOf(queue.Target{Group: target.Group, Epoch: target.Epoch})
	timer := time.NewTimer(atMost)
	defer timer.Stop()
	select {
	case <-step.ended:
		return step.done, step.err
	case <-timer.C:
		return false, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// stepOf returns the next page of a join, counts the caller as waiting for it, and starts the join unless it
// is running.
func (d *Directory) stepOf(target queue.Target) *joinStep {
	r := &d.runs
	r.mu.Lock()
	defer r.mu.Unlock()
	step := r.steps[target]
	if step == nil {
		step = newJoinStep()
		if r.ctx.Err() != nil {
			step.err = errStopping
			close(step.ended)
			return step
		}
		r.steps[target] = step
		r.done.Go(func() { d.runJoin(target) })
	}
	step.waiting++
	return step
}

// runJoin goes on with a join until its end or Close.
func (d *Directory) runJoin(target queue.Target) {
	for {
		began := time.Now()
		done, err := d.joinPage(target)
		stopped := !done && d.runs.ctx.Err() != nil
		if stopped {
			err = errStopping
		}
		if d.runs.end(target, done || stopped, err) {
			return
		}
		// If no pop waits for it, the join uses half of the time, and leaves the rest to other statements.
		pause := time.Since(began)
		if err != nil {
			pause = joinRetry
			d.log.Warn("a page of a join failed and will be repeated", zap.Int64("group", target.Group), zap.Error(err))
		}
		if err != nil || !d.runs.awaited(target) {
			_ = backoff.Sleep(d.runs.ctx, pause) // the next page notices the end of ctx
		}
	}
}

// end ends the page of target and answers the pops that wait for it. last: there is no further page.
func (r *joinRuns) end(target queue.Target, last bool, err error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	step := r.steps[target]
	step.done, step.err = last && err == nil, err
	close(step.ended)
	if last {
		delete(r.steps, target)
	} else {
		r.steps[target] = newJoinStep()
	}
	return last
}

// awaited reports whether a pop waits for the page of target.
func (r *joinRuns) awaited(target queue.Target) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.steps[target].waiting > 0
}

// joinPage creates the cursors of one page, and wakes the cursors that a push may have missed. Cursors of a
// page may become ready below the scan floors of the group.
func (d *Directory) joinPage(target queue.Target) (done bool, err error) {
	ctx, cancel := d.pool.Bounded(d.runs.ctx)
	defer cancel()
	var unready []int64
	err = d.pool.QueryRow(ctx, sqlJoinPage, target.Group, joinPage, target.Epoch).Scan(&done, &unready)
	d.floors.Forget(target.Group)
	if err != nil {
		return false, fmt.Errorf("joining group %d: %w", target.Group, postgres.Wrap(err))
	}
	d.waker.Wake(ctx, unready)
	return done, nil
}

// ResumeJoins goes on with the joins that have not ended, perhaps of an instance that crashed. It
// does not wait for them. A failure is returned, and the next pop of a group goes on with its join.
func (d *Directory) ResumeJoins(ctx context.Context) error {
	ctx, cancel := d.pool.Bounded(ctx)
	defer cancel()
	rows, _ := d.pool.Query(ctx, sqlJoiningGroups) // rows hold the error
	targets, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (target queue.Target, err error) {
		return target, row.Scan(&target.Group, &target.Epoch)
	})
	if err != nil {
		return fmt.Errorf("listing the groups that join a queue: %w", postgres.Wrap(err))
	}
	for _, target := range targets {
		d.stepOf(target)
	}
	return nil
}

// keyedMutex is a mutex for each key. It keeps callers from holding a database connection each while
// they wait for the lock of the same row: only one of them holds a connection. The zero keyedMutex is
// ready to use.
type keyedMutex struct {
	mu sync.Mutex
	// locked holds, by key, the channel that the holder closes when it unlocks.
	locked map[string]chan struct{}
}

// Lock waits until nobody holds key and then holds it until unlock is called. It fails only when
// ctx ends.
func (m *keyedMutex) Lock(ctx context.Context, key string) (unlock func(), err error) {
	for !m.tryLock(key) {
		if err := m.Wait(ctx, key); err != nil {
			return nil, err
		}
	}
	return func() { m.unlock(key) }, nil
}

// Wait waits until the present holder of key unlocks it. It fails only when ctx ends.
func (m *keyedMutex) Wait(ctx context.Context, key string) error {
	m.mu.Lock()
	unlocked, held := m.locked[key]
	m.mu.Unlock()
	if !held {
		return nil
	}
	select {
	case <-unlocked:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for the holder of %q: %w", key, ctx.Err())
	}
}

func (m *keyedMutex) tryLock(key string) (ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.locked[key] != nil {
		return false
	}
	if m.locked == nil {
		m.locked = map[string]chan struct{}{}
	}
	m.locked[key] = make(chan struct{})
	return true
}

func (m *keyedMutex) unlock(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	close(m.locked[key])
	delete(m.locked, key)
}
