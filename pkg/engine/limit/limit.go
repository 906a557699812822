package limit

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlGet  = sql.Query("engine/limit/get")
	sqlList = sql.Query("engine/limit/list")
	sqlSet  = sql.Query("engine/limit/set")
	sqlUndo = sql.Query("engine/limit/undo_values")
)

// UndoKind is the value of audit_undo.kind for a change of limits.
const UndoKind = "limits"

// Errors of all methods. errDryRun rolls back a transaction.
var (
	errNoQueue = &queue.Error{Code: queue.CodeNotFound, Message: "Queue not found"}
	errBusy    = &queue.Error{
		Code: queue.CodeUnavailable, RetryAfter: postgres.RetryAfter,
		Message: "an open transaction of a SQL consumer or of another change holds the limits: send the request again",
	}
	errDryRun = errors.New("a dry run")
)

// Store reads and changes limits. It is safe for concurrent use.
type Store struct {
	pool *postgres.Pool
	bus  *events.Bus
}

// NewStore returns a Store on pool that publishes its changes on bus.
func NewStore(pool *postgres.Pool, bus *events.Bus) *Store { return &Store{pool, bus} }

// Of names the limits of a group in a queue. An empty Group names the default of the queue.
type Of struct{ Queue, Group string }

// State is the limits in force of a group, and their use.
type State struct {
	// Limits is nil if the group has no limits. Own is true if they belong to the group, and false if they are the default of the queue.
	Limits json.RawMessage
	Own    bool
	// ChangedAt is the last change of Limits.
	ChangedAt time.Time
	// Live is the number of live leases, and Tokens the number of messages that the rate allows now. They are nil without such a limit.
	Live, Tokens *int64
	// LimitedUntil is the instant at which the limits allow a delivery at the latest. It is zero if they allow one now.
	LimitedUntil time.Time
}

// Get returns the limits in force of a group, or the default of a queue. The group need not exist. Errors: CodeNotFound, if the queue
// does not exist; CodeUnavailable.
func (s *Store) Get(ctx context.Context, of Of) (state State, err error) {
	var own pgtype.Bool
	err = s.pool.ScanRow(ctx, []any{
		&state.Limits, &own, (*zeronull.Timestamptz)(&state.ChangedAt), &state.Live, &state.Tokens, (*zeronull.Timestamptz)(&state.LimitedUntil),
	}, sqlGet, of.Queue, of.Group)
	if postgres.IsNoRows(err) {
		return state, errNoQueue
	}
	state.Own = own.Bool
	return state, postgres.Wrapf(err, "reading the limits of %+v", of)
}

// Group is a group with limits of its own.
type Group struct {
	Name   string
	Limits json.RawMessage
}

// List returns up to limit groups of a queue that have limits of their own, by name, after a name. Errors: CodeNotFound, if the queue
// does not exist; CodeUnavailable.
func (s *Store) List(ctx context.Context, queueName, after string, limit int) ([]Group, error) {
	found, err := postgres.Collect(ctx, s.pool, sqlList, func(row pgx.CollectableRow) (g Group, err error) {
		err = row.Scan((*zeronull.Text)(&g.Name), &g.Limits)
		return g, err
	}, queueName, after, int64(limit))
	switch {
	case err != nil:
		return nil, postgres.Wrapf(err, "listing the limits of queue %q", queueName)
	case len(found) == 0:
		return nil, errNoQueue
	case found[0].Name == "":
		return nil, nil
	}
	return found, nil
}

// Change is the result of Set. Before and After are nil without limits.
type Change struct {
	Changed       bool
	Before, After json.RawMessage
}

// Check decides whether a change may be committed. queueID is the queue of the change. Its error rolls back the change.
type Check func(ctx context.Context, tx pgx.Tx, queueID int64, done Change) error

// Set replaces the limits of a group or the default of a queue. Nil removes them, so the group has the default of the queue again.
// The group need not exist. A change wakes all waiting requests on every instance. It writes the row of the audit of ctx, and the
// values for an undo. With dryRun, Set does and checks the same, but stores nothing. Errors: CodeInvalid; the text says what to
// change. CodeNotFound, if the queue does not exist; CodeUnavailable, and the errors of the checks.
func (s *Store) Set(ctx context.Context, of Of, to json.RawMessage, dryRun bool, checks ...Check) (done Change, err error) {
	var text *string
	if to != nil {
		storable := string(s.pool.StorableJSON(ctx, to))
		text = &storable
	}
	err = s.pool.InTransaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var changed pgtype.Bool
		var queueID zeronull.Int8
		if err := tx.QueryRow(ctx, sqlSet, of.Queue, of.Group, text).Scan(&changed, &queueID, &done.Before, &done.After); err != nil {
			return err
		}
		if queueID == 0 {
			return errNoQueue
		}
		if done.Changed = changed.Bool; dryRun {
			return errDryRun
		}
		if err := record(ctx, tx, int64(queueID), done); err != nil {
			return err
		}
		for _, check := range checks {
			if err := check(ctx, tx, int64(queueID), done); err != nil {
				return err
			}
		}
		return nil
	})
	switch {
	case errors.Is(err, errDryRun):
		return done, nil
	case postgres.SQLState(err) == postgres.LockTimeout:
		return done, errBusy
	case err == nil && done.Changed:
		s.bus.Resync("limits changed", events.Here)
	}
	return done, refused(err, of)
}

// record writes the row of the audit, and the values for an undo.
func record(ctx context.Context, tx pgx.Tx, queueID int64, done Change) error {
	counts := audit.Counts{"changed": 0}
	if done.Changed {
		counts["changed"] = 1
	}
	if err := audit.Write(ctx, tx, counts); err != nil {
		return err
	}
	e := audit.From(ctx)
	if e == nil || !done.Changed {
		return nil
	}
	_, err := tx.Exec(ctx, sqlUndo, [16]byte(e.ID), UndoKind, queueID, orNull(done.Before), orNull(done.After))
	return err
}

// orNull returns the JSON value null for nil.
func orNull(value json.RawMessage) string {
	if value == nil {
		return "null"
	}
	return string(value)
}

// refused returns the error of a change. SQL refuses limits with a text that says what to change.
func refused(err error, of Of) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "22023" {
		return queue.Invalidf("%s: %s", pg.Message, pg.Hint)
	}
	return postgres.Wrapf(err, "setting the limits of %+v", of)
}
