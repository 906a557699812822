package catalog

import (
	"context"
	"fmt"
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
	sqlSeekTarget = sql.Query("engine/catalog/seek_target")
	sqlGroupSeek  = sql.Query("engine/catalog/group_seek")
	sqlPlaceAt    = sql.Query("engine/catalog/place_at")
)

// Position is where a seek moves a cursor. With End, the position is after the last message.
// Otherwise it is after the last message that was stored at or before After. The zero Position is
// before the first message.
type Position struct {
	End   bool
	After time.Time
}

// arg returns the position as a parameter of group_seek.sql.
func (p Position) arg() pgtype.Timestamptz {
	switch {
	case p.End:
		return pgtype.Timestamptz{InfinityModifier: pgtype.Infinity, Valid: true}
	case p.After.IsZero():
		return pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}
	default:
		return pgtype.Timestamptz{Time: p.After, Valid: true}
	}
}

// PartitionSeek is the result of SeekPartition.
type PartitionSeek struct {
	// Moved is false if the group has no cursor in the partition.
	Moved bool
	// Place is the time at which the last message before the new position was stored. It is zero if no such
	// message exists.
	Place time.Time
}

// seekTarget holds the database ids that a seek works on, and the epoch in which they are valid. An
// id is 0 if the name does not exist. moved counts the cursors that earlier pages moved.
type seekTarget struct {
	queue, group, partition, epoch, moved int64
	// undoes is the audit id of the seek that this seek undoes, or zero.
	undoes queue.ID
}

// Seek moves the cursors of a group in every partition of a queue. It returns the number of moved
// cursors, which is 0 for an unknown queue or group. Each page of cursors takes effect at once. The
// leases of moved cursors end, so a later ack under such a lease fails. Waiting requests probe
// again. Errors: CodeUnavailable; some cursors may have moved, and the same request moves the rest.
func (c *Catalog) Seek(ctx context.Context, queueName, group string, to Position) (moved int64, err error) {
	target, err := c.seekTarget(ctx, queueName, group, nil)
	if err == nil && target.group != 0 {
		moved, err = c.seekPages(ctx, target, to)
	}
	if err != nil {
		c.publishSeek()
	}
	return moved, postgres.Wrapf(err, "moving group %q of queue %q", group, queueName)
}

// seekPages moves the cursors page by page. It publishes the first page at once, so that consumers
// read it while the other pages are moved.
func (c *Catalog) seekPages(ctx context.Context, target seekTarget, to Position) (moved int64, err error) {
	var published int64
	for ids, err := range c.pages(ctx, target.queue) {
		if err != nil {
			return moved, err
		}
		target.moved = moved
		moves, err := c.seek(ctx, ids, target, to.arg(), nil)
		if err != nil {
			return moved, err
		}
		moved += int64(len(moves))
		if published == 0 && moved > 0 {
			c.publishSeek()
			published = moved
		}
	}
	if moved > published {
		c.publishSeek()
	}
	return moved, c.pool.CheckEpoch(ctx, target.epoch)
}

// SeekPartition is Seek for one partition. Errors: CodeNotFound for an unknown queue or partition,
// CodeUnavailable.
func (c *Catalog) SeekPartition(ctx context.Context, queueName, group, partition string, to Position) (PartitionSeek, error) {
	target, err := c.seekTarget(ctx, queueName, group, &partition)
	if err == nil && target.partition == 0 {
		return PartitionSeek{}, &queue.Error{Code: queue.CodeNotFound, Message: "Partition not found"}
	}
	var out PartitionSeek
	if err == nil && target.group != 0 {
		out, err = c.seekPartition(ctx, target, to)
	}
	if err != nil {
		c.events.Resync("the outcome of moving a consumer group is unknown", events.Here)
	}
	return out, postgres.Wrapf(err, "moving group %q in partition %q of queue %q", group, partition, queueName)
}

func (c *Catalog) seekPartition(ctx context.Context, target seekTarget, to Position) (PartitionSeek, error) {
	moves, err := c.seek(ctx, []int64{target.partition}, target, to.arg(), nil)
	if err == nil && len(moves) == 0 {
		err = c.pool.CheckEpoch(ctx, target.epoch)
	}
	if err != nil || len(moves) == 0 {
		return PartitionSeek{}, err
	}
	c.publishSeek()
	out := PartitionSeek{Moved: true}
	err = c.pool.ScanRow(ctx, []any{(*zeronull.Timestamptz)(&out.Place)}, sqlPlaceAt, target.partition, moves[0].after)
	if postgres.IsNoRows(err) {
		err = nil
	}
	return out, err
}

func (c *Catalog) publishSeek() {
	c.events.Resync("a consumer group was moved", events.Here)
}

// move is a cursor that a seek moved.
type move struct{ partition, before, after int64 }

// seek moves the cursors of a group in some partitions to an instant, and keeps their old positions. If undone is not nil,
// seek undoes the moves of undone instead.
func (c *Catalog) seek(ctx context.Context, partitions []int64, target seekTarget, to pgtype.Timestamptz, undone *places) (moves []move, err error) {
	err = c.pool.InTransaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var before, after []int64
		if undone != nil {
			before, after = undone.before, undone.after
		}
		rows, _ := tx.Query(ctx, sqlGroupSeek, partitions, target.group, to, target.epoch, before, after) // CollectRows returns the error
		if moves, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (m move, err error) {
			err = row.Scan(&m.partition, &m.before, &m.after)
			return m, err
		}); err != nil {
			return err
		}
		if err := audit.Write(ctx, tx, audit.Counts{"cursors": target.moved + int64(len(moves))}); err != nil {
			return err
		}
		return c.recordPlaces(ctx, tx, &target, moves)
	})
	if queue.CodeOf(err) == queue.CodeConflict {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("moving cursors: %w", err)
	}
	if len(moves) > 0 {
		err = c.wake(ctx, partitions)
	}
	return moves, err
}

func (c *Catalog) seekTarget(ctx context.Context, queueName, group string, partition *string) (t seekTarget, err error) {
	ids := []any{(*zeronull.Int8)(&t.queue), (*zeronull.Int8)(&t.group), (*zeronull.Int8)(&t.partition), &t.epoch}
	err = c.pool.ScanRow(ctx, ids, sqlSeekTarget, queueName, group, partition)
	if postgres.IsNoRows(err) {
		err = nil
	}
	return t, err
}
