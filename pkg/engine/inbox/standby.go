package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/sql"
)

const (
	// watchInterval is the time between two probes of the inbox on standby.
	watchInterval = 600 * time.Millisecond
	// frozenAfter is the maximum time that the leader session may wait for its client while rows
	// wait.
	frozenAfter = time.Second
	// terminateDelay is the time that a terminated session gets to end.
	terminateDelay = 50 * time.Millisecond
	// stalledAfter is the time after which a waiting first row causes a log line that names the
	// holder of the leader lock.
	stalledAfter = 5 * time.Second
	// warnInterval is the minimum time between two such log lines.
	warnInterval = time.Minute
)

var (
	sqlWatch  = sql.Query("engine/inbox/watch")
	sqlWake   = sql.Query("engine/inbox/wake")
	sqlDepose = sql.Query("engine/inbox/depose")
	sqlHolder = sql.Query("engine/inbox/holder")
)

// standby is the state of an instance that is not the sequencer. Only Run uses it.
type standby struct {
	// watching is set by a notification. It is cleared when the sequencer has moved the rows and
	// released WATCH.
	watching bool
	// firstRow is the id of the first waiting row in the last probe. It is 0 if no row waited, and
	// before the first probe. firstRowSince is the time of the first probe that found this row.
	firstRow      int64
	firstRowSince time.Time
	// quiet is set if the last probe found no row and WATCH was free.
	quiet bool
	// warnedAt is the time of the last log line about the holder of the leader lock.
	warnedAt time.Time
}

// watch is one step on standby. The first step after a notification only sets watching. Each later
// step probes the inbox and handles three cases:
//
//  1. Two probes in a row find no row, and WATCH is free: watching ends. One probe is not enough,
//     because the sequencer may have died just before it. Before the second probe, the next step
//     tries to take the leader lock.
//  2. The probe finds a first row, and the leader session is idle for frozenAfter: watch notifies
//     the sequencer. It may sleep because a session with belfry.notify = off wrote the row.
//  3. The next probe finds the same first row, and the leader session is still idle: watch ends
//     this session. The next step takes the free leader lock.
//
// watch returns the time until the next step.
func (s *Sequencer) watch(ctx context.Context) (next time.Duration, err error) {
	if !s.watching {
		s.watching, s.firstRow, s.quiet = true, 0, false
		return watchInterval, nil
	}
	ctx, cancel := s.SequencerPool.Bounded(ctx)
	defer cancel()
	var first int64
	var frozen, watchLocked bool
	if err := s.SequencerPool.QueryRow(ctx, sqlWatch, lockClass, leaderLock, frozenAfter.Seconds(), watchLock).Scan(&first, &frozen, &watchLocked); err != nil {
		return 0, fmt.Errorf("watching the sequencer: %w", err)
	}
	firstBefore, quietBefore := s.firstRow, s.quiet
	s.firstRow, s.quiet = first, first == 0 && !watchLocked
	switch {
	case s.quiet && !quietBefore:
		return watchInterval, nil
	case s.quiet:
		s.watching = false
		return s.idleInterval(), nil
	case frozen && first > 0 && firstBefore == 0:
		if _, err := s.SequencerPool.Exec(ctx, sqlWake); err != nil {
			return 0, fmt.Errorf("notifying the sequencer: %w", err)
		}
		return watchInterval, s.warnIfStalled(ctx, firstBefore)
	case !frozen || firstBefore == 0 || first > firstBefore:
		return watchInterval, s.warnIfStalled(ctx, firstBefore)
	}
	return terminateDelay, s.endFrozen(ctx)
}

// endFrozen ends the leader session if it is still frozen.
func (s *Sequencer) endFrozen(ctx context.Context) error {
	who, err := holder(ctx, s.SequencerPool, leaderLock)
	if err != nil {
		return fmt.Errorf("reading which session is the sequencer: %w", err)
	}
	var ended int64
	if err := s.SequencerPool.QueryRow(ctx, sqlDepose, lockClass, leaderLock, frozenAfter.Seconds(), sleepLock).Scan(&ended); err != nil {
		return fmt.Errorf("ending the frozen sequencer, %s (it must have the same role as this instance): %w", who, err)
	}
	s.Log.Warn("the sequencer was frozen; its session was ended, and this instance may take over",
		zap.Stringer("holder", who), zap.Int64("sessions", ended))
	return nil
}

// Holder is a session that holds a lock of the sequencer. It may be a session of an instance or of
// another program.
type Holder struct {
	// PID is 0 for a prepared transaction.
	PID int64
	// User and Application describe the session. They are empty if unknown.
	User, Application string
}

func (h *Holder) String() string {
	switch {
	case h == nil:
		return "nobody any more"
	case h.PID == 0:
		return "a prepared transaction (see pg_prepared_xacts)"
	default:
		return fmt.Sprintf("session %d of user %q, application %q", h.PID, h.User, h.Application)
	}
}

// EndStatement returns the SQL statement that ends the holder.
func (h *Holder) EndStatement() string {
	if h.PID == 0 {
		return "ROLLBACK PREPARED or COMMIT PREPARED"
	}
	return fmt.Sprintf("SELECT pg_terminate_backend(%d)", h.PID)
}

// querier is a pool, a connection or a transaction.
type querier interface {
	QueryRow(ctx context.Context, query string, args ...any) pgx.Row
}

// FindHolder is Sequencer.Holder for a program without a Sequencer. It returns the errors of db.
func FindHolder(ctx context.Context, db querier) (*Holder, error) {
	return holder(ctx, db, leaderLock, watchLock)
}

// Holder returns the session that holds the leader lock, or else the session that holds WATCH, or
// nil. Its query ends with ctx. Errors: CodeUnavailable.
func (s *Sequencer) Holder(ctx context.Context) (*Holder, error) {
	h, err := holder(ctx, s.Pool, leaderLock, watchLock)
	return h, postgres.Wrapf(err, "reading which session holds the lock of the inbox")
}

// holder returns the session that holds the first of the locks that is not free. It returns nil if
// all locks are free.
func holder(ctx context.Context, db querier, locks ...int32) (*Holder, error) {
	var h Holder
	err := db.QueryRow(ctx, sqlHolder, lockClass, locks).Scan(&h.PID, &h.User, &h.Application)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	return &h, err
}

// warnIfStalled logs the holder of the leader lock if the first row has waited for stalledAfter. The
// holder is an instance that cannot continue, or the session of another program that is not idle, or
// a session that this instance has no right to end. firstBefore is the first row of the previous
// probe.
func (s *Sequencer) warnIfStalled(ctx context.Context, firstBefore int64) error {
	if s.firstRow == 0 || s.firstRow != firstBefore {
		s.firstRowSince = time.Now()
		return nil
	}
	if time.Since(s.firstRowSince) < s.stalledAfter || time.Since(s.warnedAt) < warnInterval {
		return nil
	}
	h, err := holder(ctx, s.SequencerPool, leaderLock)
	if err != nil || h == nil {
		return err
	}
	s.warnedAt = time.Now()
	s.Log.Warn("the session with the lock of the inbox moved no row; if it is not a session of Belfry, end it",
		zap.Stringer("holder", h), zap.Duration("for", time.Since(s.firstRowSince)), zap.String("hint", h.EndStatement()))
	return nil
}
