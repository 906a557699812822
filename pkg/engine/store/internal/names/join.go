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
	// JoinPatience bounds the time that a pop without messages waits for the join of its group.
	JoinPatience = time.Second
	// joinPage is the maximum number of partitions in one transaction of a join.
	joinPage = 500
	// joinRetry is the pause after a page of a join failed.
	joinRetry = time.Second
)

// errStopping is the answer to pops that wait for a join when the instance stops.
var errStopping = &queue.Error{
	Code: queue.CodeUnavailable, RetryAfter: postgres.RetryAfter,
	Message: "the server is stopping; send the request again to another instance",
}

// joinRuns are the joins that run on this instance, by group. One goroutine runs each join, so pops
// that wait for a join hold no connection.
type joinRuns struct {
	mu    sync.Mutex
	steps map[queue.Target]*joinStep
	// ctx ends when stop is called. done counts the goroutines.
	ctx  context.Context
	stop context.CancelFunc
	done sync.WaitGroup
}

// joinStep is one page of a join. waiting is the number of pops that wait for it. ended is closed
// when the page has ended. Then done and err are its result.
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

// Close stops the joins that run on this instance. A later pop, or another instance, continues a
// join.
func (d *Directory) Close() {
	d.runs.mu.Lock()
	d.runs.stop()
	d.runs.mu.Unlock()
	d.runs.done.Wait()
}

// GoOn starts the join of a group in the background if the join does not run. It waits for the end of the
// next page, at most atMost. done is true if every partition has a cursor of the group. Errors: the error
// of the page, and the end of ctx.
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

// stepOf returns the next page of a join, and counts the caller as waiting. It starts the join if the join
// does not run.
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

// runJoin runs a join until its end or until Close.
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
		// If no pop waits for the join, it pauses for as long as the page took, so that it delays other
		// statements less.
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

// end ends the page of target and answers the pops that wait for the page. last is true if no
// further page follows.
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

// awaited reports whether a pop waits for the current page of target.
func (r *joinRuns) awaited(target queue.Target) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.steps[target].waiting > 0
}

// joinPage creates the cursors of one page, and wakes partitions if a push may have left their new cursors
// not ready. New cursors may be ready below the scan floors of the group, so joinPage drops the floors.
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

// ResumeJoins starts all joins that have not ended, including joins of crashed instances. It does
// not wait for their end. If it returns an error, the next pop of a group continues the join of
// this group.
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

// keyedMutex is a mutex for each key. With it, only one of the callers that need the lock of the same
// row holds a database connection. The other callers wait without a connection. The zero keyedMutex
// is ready to use.
type keyedMutex struct {
	mu sync.Mutex
	// locked holds, by key, the channel that the holder closes when it unlocks.
	locked map[string]chan struct{}
}

// Lock waits until key is free, and holds key until unlock is called. It fails only if ctx ends.
func (m *keyedMutex) Lock(ctx context.Context, key string) (unlock func(), err error) {
	for !m.tryLock(key) {
		if err := m.Wait(ctx, key); err != nil {
			return nil, err
		}
	}
	return func() { m.unlock(key) }, nil
}

// Wait waits until the current holder of key unlocks it. It fails only if ctx ends.
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
