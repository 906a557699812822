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
	// Patience is how long a call waits for contended cursors, from its first wait on. Only a SQL
	// consumer holds a cursor for longer: it holds the cursor until its transaction ends.
	Patience = 2 * time.Second
	// maxContended bounds the cache. A cursor beyond it is found contended again by each flush.
	maxContended = 10_000
	// LockPatience is how long a session that blocks other callers waits for one lock: a flush of many
	// acks holds their cursors, and a transaction holds its partitions. It is more than the flush of
	// another instance takes and less than a client notices. A session that waited longer gives way.
	LockPatience = 100 * time.Millisecond
	// setPatience bounds how long a transaction waits for one lock, in milliseconds.
	setPatience = "SELECT set_config('lock_timeout', $1, true)"
)

// lockTimeout returns the setting lock_timeout for patience. 0 would mean no bound.
func lockTimeout(patience time.Duration) string { return fmt.Sprint(max(1, patience.Milliseconds())) }

// ContendedError says that another session holds a cursor of a call, and that the call was not
// applied.
type ContendedError struct {
	// Cursor is one of the contended cursors. The zero Cursor means that none is contended any more.
	Cursor Cursor
	// Since is when the wait for the cursor began.
	Since time.Time
	// Cause is the error that ended the wait; nil: the cache knew that the cursor is contended.
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

// gaveUp is the answer to a call whose cursor stayed contended. Its own lease was over before the
// other session took the cursor.
func gaveUp(err error) error {
	return &queue.Error{
		Code: queue.CodeUnavailable, RetryAfter: postgres.RetryAfter, Err: err,
		Message: "the lease was over, and a consumer in SQL holds the partition in an open transaction; nothing was done: send the request again",
	}
}

// KnownContended returns an error when a cursor of call is in the cache of contended cursors.
func (a *Acker) KnownContended(call *Call) *ContendedError {
	if cursor, contended := a.contended.first(call.cursors); contended {
		return &ContendedError{Cursor: cursor, Since: time.Now()}
	}
	return nil
}

// split returns the calls that touch no contended cursor, and the errors of the others.
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

// flush applies the acknowledgments of calls in one transaction, without the calls that touch a
// contended cursor: their error is a ContendedError, and they have to wait by themselves.
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

// applyTogether is flush for calls none of which is known to be contended.
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
	// waitForCursor is a cursor to wait for before anything is locked; nil: none.
	waitForCursor *Cursor
	// patience bounds the wait for waitForCursor, and for locks that are not of cursors.
	patience time.Duration
	// since and cause complete the errors of the contended calls.
	since time.Time
	cause error
}

// applyFree applies, in one transaction, the calls of f that touch no contended cursor, and returns
// the others. It waits for no cursor while it holds another one, so it blocks no other session for
// long and is part of no deadlock.
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

// lockFree begins a transaction, waits for how.waitForCursor, and locks the cursors of f that are
// free. It returns the others.
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

// FindContended looks for a cursor of f that another session holds. The zero Cursor means that none
// does.
func (a *Acker) FindContended(ctx context.Context, conn *pgxpool.Conn, f *Flush) (Cursor, error) {
	found, err := readContended(conn.Query(ctx, sqlAckContended, f.Partitions, f.groups, queue.RawIDs(f.Leases)))
	if err != nil || len(found) == 0 {
		return Cursor{}, err
	}
	a.contended.learn(nil, found)
	return found[0], nil
}

// readContended reads the result of ack_contended.sql. rows hold the error of the query too.
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

// contentionCache remembers the cursors that another session was found to hold for long: each for Patience, or
// until a session gets its lock. It is safe for concurrent use.
//
// Group commit must not wait for such a cursor: all other calls in the same flush would wait with it. A call
// that touches a remembered cursor skips the flush and waits by itself. The cache is only a hint: a flush finds
// out by SQL who holds what.
type contentionCache struct {
	mu    sync.Mutex
	until map[Cursor]time.Time
	// last is the latest instant in until.
	last time.Time
}

func newContentionCache() *contentionCache { return &contentionCache{until: map[Cursor]time.Time{}} }

// learn removes the cursors whose lock was got and adds the contended ones.
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

// expireLocked empties the cache when all its entries are over.
func (c *contentionCache) expireLocked() {
	if len(c.until) > 0 && time.Now().After(c.last) {
		clear(c.until)
	}
}

// first returns the first of cursors that is contended; ok is false when none is.
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
