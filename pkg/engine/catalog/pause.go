package catalog

import (
	"context"

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
	sqlPause  = sql.Query("engine/catalog/pause")
	sqlPauses = sql.Query("engine/catalog/pauses")
)

// Pausable names the queue, partition or consumer group that SetPaused pauses. At most one of Partition
// and Group is set.
type Pausable struct{ Queue, Partition, Group string }

// missing is the text of the error for a Pausable that does not exist.
func (p Pausable) missing() string {
	switch {
	case p.Partition != "":
		return "Partition not found"
	case p.Group != "":
		return "Consumer group not found"
	default:
		return "Queue not found"
	}
}

// SetPaused pauses or resumes the delivery of messages, and reports whether the state changed. While a
// queue, a partition or a group is paused, pops from it return nothing. Pushes and acks continue. A pause
// stores reason, which may be empty. A resume wakes every waiting request on every instance, even if the
// state did not change. So a resume that failed halfway can be repeated. Errors: CodeNotFound,
// CodeUnavailable.
func (c *Catalog) SetPaused(ctx context.Context, what Pausable, paused bool, reason string) (changed bool, err error) {
	return c.pause(ctx, what, paused, reason, func(context.Context, pgx.Tx, *valueChange) error { return nil })
}

// valueChange is a change of options or of a pause: the ids of the target, and the values before and after.
type valueChange struct {
	changed                 pgtype.Bool
	queue, group, partition zeronull.Int8
	before, after           []byte
}

// pause is SetPaused. It calls check at the end of the transaction. If check returns an error, nothing changes.
func (c *Catalog) pause(
	ctx context.Context, what Pausable, paused bool, reason string, check func(context.Context, pgx.Tx, *valueChange) error,
) (changed bool, err error) {
	var done valueChange
	reason = c.pool.Storable(ctx, reason)
	err = c.pool.InTransaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		args := []any{what.Queue, zeronull.Text(what.Partition), zeronull.Text(what.Group), paused, zeronull.Text(reason)}
		err := tx.QueryRow(ctx, sqlPause, args...).Scan(&done.changed, &done.partition, &done.queue, &done.group, &done.before, &done.after)
		if err != nil {
			return err
		}
		if !done.changed.Valid {
			return &queue.Error{Code: queue.CodeNotFound, Message: what.missing()}
		}
		counts := audit.Counts{"changed": 0}
		if done.changed.Bool {
			counts["changed"] = 1
		}
		if err = audit.Write(ctx, tx, counts); err == nil && done.changed.Bool {
			err = recordValues(ctx, tx, kindPause, &done)
		}
		if err != nil {
			return err
		}
		return check(ctx, tx, &done)
	})
	if code := queue.CodeOf(err); code == queue.CodeNotFound || code == queue.CodeConflict {
		return false, err
	}
	if !paused {
		if err == nil && done.partition != 0 {
			err = c.wake(ctx, []int64{int64(done.partition)})
		}
		c.events.Resync("a pause ended", events.Here)
	}
	return done.changed.Bool && err == nil, postgres.Wrapf(err, "pausing or resuming %+v", what)
}

// Paused is a paused object with the reason, which may be empty.
type Paused struct {
	Pausable
	Reason string
}

// Pauses returns up to limit paused objects of the queue, or of all queues if queueName is nil. allowed are patterns of names of
// queues; nil selects all. Errors: CodeUnavailable.
func (c *Catalog) Pauses(ctx context.Context, queueName *string, allowed []string, limit int64) ([]Paused, error) {
	found, err := postgres.Collect(ctx, c.pool, sqlPauses, func(row pgx.CollectableRow) (p Paused, err error) {
		err = row.Scan(&p.Queue, (*zeronull.Text)(&p.Partition), (*zeronull.Text)(&p.Group), (*zeronull.Text)(&p.Reason))
		return p, err
	}, queueName, postgres.LikePatterns(allowed), limit)
	return found, postgres.Wrapf(err, "listing pauses")
}
