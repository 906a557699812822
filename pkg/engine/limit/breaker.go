package limit

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlBreakerGet    = sql.Query("engine/limit/breaker_get")
	sqlBreakerChange = sql.Query("engine/limit/breaker_change")
	sqlBreakersOpen  = sql.Query("engine/limit/breakers_open")

	errNoGroup   = &queue.Error{Code: queue.CodeNotFound, Message: "Consumer group not found"}
	errNoBreaker = &queue.Error{
		Code:    queue.CodeConflict,
		Message: "the consumer group has no breaker: set the limit breaker of the group, or pause the group",
	}
)

// maxOpen is the largest number that OpenBreakers returns.
const maxOpen = 100_000

// Breaker is the state of the breaker of a group.
type Breaker struct {
	// Configured is true if the limits of the group have a breaker.
	Configured bool
	// OpenedAt is since when the breaker is not closed. Zero: it is closed. Then the next four fields are zero.
	OpenedAt time.Time
	// Until is the instant at which a lease may pass. While Probing is true, it is the end of the lease that has passed.
	Until time.Time
	// Probing is true while the half-open breaker waits for the result of its lease.
	Probing bool
	// Openings counts the openings since the breaker was closed.
	Openings       int64
	OpenedBy       string
	Reason         string
	FailuresInARow int64
	// Completed and Failed are the outcomes in the window.
	Completed, Failed int64
	// Now is the clock of the database.
	Now time.Time
}

// Breaker returns the state of the breaker of a group. Errors: CodeNotFound, if the group does not exist; CodeUnavailable.
func (s *Store) Breaker(ctx context.Context, of Of) (b Breaker, err error) {
	err = s.pool.ScanRow(ctx, []any{
		&b.Configured, (*zeronull.Timestamptz)(&b.OpenedAt), (*zeronull.Timestamptz)(&b.Until), &b.Probing, &b.Openings, (*zeronull.Text)(&b.OpenedBy),
		(*zeronull.Text)(&b.Reason), &b.FailuresInARow, &b.Completed, &b.Failed, &b.Now,
	}, sqlBreakerGet, of.Queue, of.Group)
	if postgres.IsNoRows(err) {
		return b, errNoGroup
	}
	return b, postgres.Wrapf(err, "reading the breaker of %+v", of)
}

// OpenBreakers counts the breakers that are not closed, at most 100,000. Errors: CodeUnavailable.
func (s *Store) OpenBreakers(ctx context.Context) (n int64, err error) {
	err = s.pool.QueryRow(ctx, sqlBreakersOpen, int64(maxOpen)).Scan(&n)
	return n, postgres.Wrapf(err, "counting the open breakers")
}

// OpenBreaker opens the breaker of a group for a pause. 0 means the pause of the breaker. An open breaker stays open until the later of
// both instants. It returns the end of the pause. Errors: CodeNotFound, if the group does not exist; CodeConflict, if it has no
// breaker; CodeUnavailable.
func (s *Store) OpenBreaker(ctx context.Context, of Of, pause time.Duration, reason string) (until time.Time, err error) {
	_, until, err = s.changeBreaker(ctx, of, true, pause, reason)
	return until, err
}

// CloseBreaker closes the breaker of a group, and reports whether it was open. It wakes all waiting requests on every instance, even
// if the breaker was closed. So a request that failed halfway can be repeated. Errors as OpenBreaker.
func (s *Store) CloseBreaker(ctx context.Context, of Of) (changed bool, err error) {
	changed, _, err = s.changeBreaker(ctx, of, false, 0, "")
	s.bus.Resync("a breaker was closed", events.Here)
	return changed, err
}

func (s *Store) changeBreaker(ctx context.Context, of Of, open bool, pause time.Duration, reason string) (changed bool, until time.Time, err error) {
	err = s.pool.InTransaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var wasChanged, configured pgtype.Bool
		var group zeronull.Int8
		args := []any{of.Queue, of.Group, open, zeronull.Int8(pause.Microseconds()), zeronull.Text(s.pool.Storable(ctx, reason))}
		if err := tx.QueryRow(ctx, sqlBreakerChange, args...).Scan(&wasChanged, &configured, (*zeronull.Timestamptz)(&until), &group); err != nil {
			return err
		}
		switch changed = wasChanged.Bool; {
		case group == 0:
			return errNoGroup
		case !configured.Bool:
			return errNoBreaker
		}
		counts := audit.Counts{"changed": 0}
		if changed {
			counts["changed"] = 1
		}
		return audit.Write(ctx, tx, counts)
	})
	if postgres.SQLState(err) == postgres.LockTimeout {
		err = errBusy
	}
	return changed && err == nil, until, postgres.Wrapf(err, "changing the breaker of %+v", of)
}
