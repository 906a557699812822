package ack

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/belfry-mq/belfry/pkg/engine/store/internal/pipeline"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlAckContended = sql.Query("engine/store/ack_contended")
	sqlAckWait      = sql.Query("engine/store/ack_wait")
)

const (
	// Patience bounds the time that a call waits for contended cursors, counted from its first
	// wait. Only a SQL consumer holds a cursor for longer, because it keeps the lock until its
	// transaction ends.
	Patience = 2 * time.Second
	// maxContended bounds the cache. If the cache is full, each flush finds further contended
	// cursors again.
	maxContended = 10_000
	// LockPatience bounds the wait for one lock of a session that blocks other callers. (A flush of
	// many acks holds their cursors, and a transaction holds its partitions.) It is longer than a
	// flush of another instance, and too short for a client to notice. After LockPatience, the session
	// rolls back.
	LockPatience = 100 * time.Millisecond
	// setPatience bounds how long a transaction waits for one lock, in milliseconds.
	setPatience = "SELECT set_config('lock_timeout', $1, true)"
)

// lockTimeout returns the setting lock_timeout for patience. It is at least 1 ms, because Postgres
// reads 0 as no limit.
func lockTimeout(patience time.Duration) string { return fmt.Sprint(max(1, patience.Milliseconds())) }

// ContendedError means that another session holds a cursor of a call, and that the call was not
// applied.
type ContendedError struct {
	// Cursor is one of the contended cursors. The zero Cursor means that no cursor is contended any
	// more.
	Cursor Cursor
	// Since is the time when the wait for the cursor began.
	Since time.Time
	// Cause is the error that ended the wait. It is nil if the cache listed the cursor as
	// contended.
	Cause error
}

func (e *ContendedError) Error() string {
	return fmt.Sprintf("another session holds the cursor of group %q in partition %d", e.Cursor.Group, e.Cursor.Partition)
}

func (e *ContendedError) Unwrap() error { return e.Cause }

// ContendedIn returns the ContendedError in err's chain, or nil.
func ContendedIn(err error) *ContendedError {
	var contended *ContendedError
	errors.As(err, &contended)
	return contended
}

// gaveUp returns the answer to a call whose cursor stayed contended. The lease of the call had
// ended before the other session locked the cursor.
func gaveUp(err error) error {
	return &queue.Error{
		Code: queue.CodeUnavailable, RetryAfter: postgres.RetryAfter, Err: err,
		Message: "the lease has ended, and a consumer in SQL holds the partition in an open transaction; nothing was done: send the request again",
	}
}

// KnownContended returns an error if a cursor of call is in the cache of contended cursors.
func (a *Acker) KnownContended(call *Call) *ContendedError {
	if cursor, contended := a.contended.first(call.cursors); contended {
		return &ContendedError{Cursor: cursor, Since: time.Now()}
	}
	return nil
}

// split returns the calls without a contended cursor, and the errors of the other calls.
func split(calls []*Call, contendedIn func(*Call) *ContendedError) (free []*Call, contended map[*Call]*ContendedError) {
	contended = map[*Call]*ContendedError{}
	for _, call := range calls {
		if err := contendedIn(call); err != nil {
			contended[call] = err
		} else {
			free = append(free, call)
		}
	}
	return free, contended
}

// flush applies the acks of calls in one transaction. It leaves out calls with a contended cursor:
// such a call gets a ContendedError and must wait separately.
func (a *Acker) flush(ctx context.Context, calls []*Call) ([]error, error) {
	free, contended := split(calls, a.KnownContended)
	if len(free) > 0 {
		found, err := a.applyTogether(ctx, free)
		if err != nil {
			return nil, err
		}
		maps.Copy(contended, found)
	}
	if len(contended) == 0 {
		return nil, nil
	}
	each := make([]error, len(calls))
	for i, call := range calls {
		if err := contended[call]; err != nil {
			each[i] = err
		}
	}
	return each, nil
}

// applyTogether does the work of flush for calls that have no cursor in the cache of contended
// cursors.
func (a *Acker) applyTogether(ctx context.Context, calls []*Call) (map[*Call]*ContendedError, error) {
	ctx, cancel := a.Pool.Bounded(ctx)
	defer cancel()
	conn, err := a.Pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	began := time.Now()
	f := NewFlush(calls)
	f.Patience = LockPatience
	err = f.run(ctx, a, conn)
	if err != nil {
		pipeline.Rollback(ctx, conn)
	}
	if postgres.SQLState(err) != postgres.LockTimeout {
		return nil, err
	}
	return a.applyFree(ctx, conn, f, lockOptions{patience: Patience, since: began, cause: err})
}

// lockOptions say how applyFree takes locks.
type lockOptions struct {
	// waitForCursor is the cursor to wait for before other locks are taken. It may be nil.
	waitForCursor *Cursor
	// patience bounds the wait for waitForCursor, and for locks on other rows than cursors.
	patience time.Duration
	// since and cause are copied to the ContendedError of contended calls.
	since time.Time
	cause error
}

// applyFree applies, in one transaction, the calls of f without a contended cursor, and returns the
// errors of the other calls. It never waits for a cursor while it holds another cursor, so it
// blocks no other session for long and causes no deadlock.
func (a *Acker) applyFree(ctx context.Context, conn *pgxpool.Conn, f *Flush, how lockOptions) (map[*Call]*ContendedError, error) {
	found, err := a.lockFree(ctx, conn, f, how)
	if err != nil {
		return nil, err
	}
	got := make([]Cursor, 0, len(f.Partitions)+1)
	for i, partition := range f.Partitions {
		got = append(got, Cursor{Partition: partition, Group: f.groups[i]})
	}
	if how.waitForCursor != nil {
		got = append(got, *how.waitForCursor)
	}
	a.contended.learn(got, found)
	isContended := map[Cursor]bool{}
	for _, cursor := range found {
		isContended[cursor] = true
	}
	free, contended := split(f.calls, func(call *Call) *ContendedError {
		for cursor := range call.cursors {
			if isContended[cursor] {
				return &ContendedError{Cursor: cursor, Since: how.since, Cause: how.cause}
			}
		}
		return nil
	})
	if len(free) == 0 {
		pipeline.Rollback(ctx, conn)
		return contended, nil
	}
	g := NewFlush(free)
	g.begun, g.Patience = true, how.patience
	if err := g.run(ctx, a, conn); err != nil {
		pipeline.Rollback(ctx, conn)
		return nil, err
	}
	return contended, nil
}

// lockFree begins a transaction, waits for how.waitForCursor, and locks the free cursors of f. It
// returns the cursors that another session holds.
func (a *Acker) lockFree(ctx context.Context, conn *pgxpool.Conn, f *Flush, how lockOptions) (contended []Cursor, err error) {
	b := &pgx.Batch{}
	b.Queue("BEGIN")
	b.Queue(setPatience, lockTimeout(how.patience))
	steps := []string{"beginning", "setting the lock timeout"}
	if how.waitForCursor != nil {
		b.Queue(sqlAckWait, how.waitForCursor.Partition, how.waitForCursor.Group)
		steps = append(steps, "waiting for a cursor")
	}
	b.Queue(sqlAckContended, f.Partitions, f.groups, queue.RawIDs(nil))
	err = pipeline.Send(ctx, conn, b, func(results pgx.BatchResults) (err error) {
		if err := pipeline.Skip(results, steps...); err != nil {
			return err
		}
		contended, err = readContended(results.Query())
		return err
	})
	return contended, err
}

// FindContended returns a cursor of f that another session holds, or the zero Cursor.
func (a *Acker) FindContended(ctx context.Context, conn *pgxpool.Conn, f *Flush) (Cursor, error) {
	found, err := readContended(conn.Query(ctx, sqlAckContended, f.Partitions, f.groups, queue.RawIDs(f.Leases)))
	if err != nil || len(found) == 0 {
		return Cursor{}, err
	}
	a.contended.learn(nil, found)
	return found[0], nil
}

// readContended reads the result of ack_contended.sql. It ignores the error of the query, because
// rows return it too.
func readContended(rows pgx.Rows, _ error) ([]Cursor, error) {
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Cursor])
	if err != nil {
		return nil, fmt.Errorf("finding contended cursors: %w", err)
	}
	return found, nil
}

// Cursor names the cursor of a consumer group in a partition.
type Cursor struct {
	Partition int64
	Group     string
}

// contentionCache lists contended cursors. An entry ends after Patience, or when a session of this instance
// locks the cursor. It is safe for concurrent use.
//
// Group commit must not wait for such a cursor: all other calls in the same flush would wait with it. A call
// with a listed cursor leaves the flush and waits separately. The cache is only a hint: a flush finds contended
// cursors by SQL.
type contentionCache struct {
	mu    sync.Mutex
	until map[Cursor]time.Time
	// last is the latest time in until.
	last time.Time
}

func newContentionCache() *contentionCache { return &contentionCache{until: map[Cursor]time.Time{}} }

// learn removes the cursors in got, which this instance could lock, and adds the contended cursors.
func (c *contentionCache) learn(got, contended []Cursor) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expireLocked()
	for _, cursor := range got {
		delete(c.until, cursor)
	}
	for _, cursor := range contended {
		if len(c.until) < maxContended {
			c.last = time.Now().Add(Patience)
			c.until[cursor] = c.last
		}
	}
}

// expireLocked empties the cache when all its entries have ended.
func (c *contentionCache) expireLocked() {
	if len(c.until) > 0 && time.Now().After(c.last) {
		clear(c.until)
	}
}

// first returns the first contended cursor. ok is false if no cursor is contended.
func (c *contentionCache) first(cursors iter.Seq[Cursor]) (contended Cursor, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expireLocked()
	if len(c.until) == 0 {
		return Cursor{}, false
	}
	now := time.Now()
	for cursor := range cursors {
		if now.Before(c.until[cursor]) {
			return cursor, true
		}
	}
	return Cursor{}, false
}
