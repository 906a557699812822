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

var sqlPause = sql.Query("engine/catalog/pause")

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
// queue, a partition or a group is paused, pops from it return nothing. Pushes and acks continue. A
// resume wakes every waiting request on every instance, even if the state did not change. So a resume
// that failed halfway can be repeated. Errors: CodeNotFound, CodeUnavailable.
func (c *Catalog) SetPaused(ctx context.Context, what Pausable, paused bool) (changed bool, err error) {
	var partition zeronull.Int8
	err = c.pool.InTransaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var done pgtype.Bool
		args := []any{what.Queue, zeronull.Text(what.Partition), zeronull.Text(what.Group), paused}
		if err := tx.QueryRow(ctx, sqlPause, args...).Scan(&done, &partition); err != nil {
			return err
		}
		if !done.Valid {
			return &queue.Error{Code: queue.CodeNotFound, Message: what.missing()}
		}
		changed = done.Bool
		counts := audit.Counts{"changed": 0}
		if changed {
			counts["changed"] = 1
		}
		return audit.Write(ctx, tx, counts)
	})
	if queue.CodeOf(err) == queue.CodeNotFound {
		return false, err
	}
	if !paused {
		if err == nil && partition != 0 {
			err = c.wake(ctx, []int64{int64(partition)})
		}
		c.events.Resync("a pause ended", events.Here)
	}
	return changed && err == nil, postgres.Wrapf(err, "pausing or resuming %+v", what)
}
