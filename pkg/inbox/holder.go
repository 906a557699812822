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
	// stalledAfter is how long the first row waits before the holder of the leader lock is logged.
	stalledAfter = 5 * time.Second
	// warnInterval is the least time between two such log lines.
	warnInterval = time.Minute
)

var sqlHolder = sql.Query("inbox/holder")

// Holder is a session that holds a lock of the sequencer. It may be the session of an instance, or
// any other one.
type Holder struct {
	// PID is 0 for a prepared transaction.
	PID int64
	// User and Application describe the session. They are empty if they are not known.
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

// endStatement is the SQL statement that ends the holder.
func (h *Holder) endStatement() string {
	if h.PID == 0 {
		return "ROLLBACK PREPARED or COMMIT PREPARED"
	}
	return fmt.Sprintf("SELECT pg_terminate_backend(%d)", h.PID)
}

// Holder returns the session that is the sequencer, or that keeps the instances from being it, or
// nil. It returns when ctx ends. Errors: CodeUnavailable.
func (s *Sequencer) Holder(ctx context.Context) (*Holder, error) {
	h, err := holder(ctx, s.pool, leaderLock, watchLock)
	if err != nil {
		return nil, postgres.Wrap(fmt.Errorf("reading who holds the lock of the inbox: %w", err))
	}
	return h, nil
}

// holder returns the session that holds the first held one of the locks, nil if all are free.
func holder(ctx context.Context, pool *postgres.Pool, locks ...int32) (*Holder, error) {
	var h Holder
	err := pool.QueryRow(ctx, sqlHolder, lockClass, locks).Scan(&h.PID, &h.User, &h.Application)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	return &h, err
}

// warnIfStalled logs the holder of the leader lock if the first row has waited for stalledAfter. The
// holder is an instance that cannot continue, or another session that is not idle or that this
// instance has no right to end. firstBefore is the first row of the look before.
func (s *Sequencer) warnIfStalled(ctx context.Context, firstBefore int64) error {
	if s.firstRow == 0 || s.firstRow != firstBefore {
		s.firstRowSince = time.Now()
		return nil
	}
	if time.Since(s.firstRowSince) < s.stalledAfter || time.Since(s.warnedAt) < warnInterval {
		return nil
	}
	h, err := holder(ctx, s.own, leaderLock)
	if err != nil || h == nil {
		return err
	}
	s.warnedAt = time.Now()
	s.log.Warn("the session with the lock of the inbox moved no row; if it is no session of Belfry, end it",
		zap.Stringer("holder", h), zap.Duration("for", time.Since(s.firstRowSince)), zap.String("hint", h.endStatement()))
	return nil
}
