package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/postgres"
)

const (
	// stalledAfter is how long the first row lies before it is told who has the lock.
	stalledAfter = 5 * time.Second
	// tellEvery is how often that is told.
	tellEvery = time.Minute
)

// Holder is a session with a lock of the sequencer: that of an instance, or of
// anybody who knows the number.
type Holder struct {
	// PID is 0 for a prepared transaction.
	PID int64
	// User and Application are those of the session, as far as it says.
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

// end is what takes the lock from it.
func (h *Holder) end() string {
	if h.PID == 0 {
		return "ROLLBACK PREPARED or COMMIT PREPARED"
	}
	return fmt.Sprintf("SELECT pg_terminate_backend(%d)", h.PID)
}

// Holder returns the session that is, or keeps others from being, the sequencer;
// nil: nobody. Errors: CodeUnavailable. ctx ends it.
func (s *Sequencer) Holder(ctx context.Context) (*Holder, error) {
	h, err := holder(ctx, s.pool, lockID, markID)
	if err != nil {
		return nil, postgres.Wrap(fmt.Errorf("asking who has the lock of the inbox: %w", err))
	}
	return h, nil
}

// holder returns the session with the first of the locks that somebody has.
func holder(ctx context.Context, pool *postgres.Pool, ids ...int32) (*Holder, error) {
	var h Holder
	err := pool.QueryRow(ctx, sqlHolder, lockClass, ids).Scan(&h.PID, &h.User, &h.Application)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	return &h, err
}

// tell says who has the lock when the first row has been lying for a while: an
// instance that cannot go on, or a stranger who is not ended because it is at work or
// because nobody sees that it is not.
func (s *Sequencer) tell(ctx context.Context, before int64) error {
	if s.head == 0 || s.head != before {
		s.since = time.Now()
		return nil
	}
	if time.Since(s.since) < s.stalled || time.Since(s.told) < tellEvery {
		return nil
	}
	h, err := holder(ctx, s.own, lockID)
	if err != nil || h == nil {
		return err
	}
	s.told = time.Now()
	s.log.Warn("nothing of the inbox is moved by the session that has the lock for it; if it is none of Belfry's, end it",
		zap.Stringer("holder", h), zap.Duration("for", time.Since(s.since)), zap.String("hint", h.end()))
	return nil
}
