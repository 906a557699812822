package catalog

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/belfry-mq/belfry/pkg/events"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlSeekTarget = sql.Query("catalog/seek_target")
	sqlGroupSeek  = sql.Query("catalog/group_seek")
	sqlMessageAt  = sql.Query("catalog/message_at")
)

// Position is where a seek moves a cursor. With End it is behind the last message. Otherwise it is
// behind the last message stored at or before After. The zero Position is before the first message.
type Position struct {
	End   bool
	After time.Time
}

// arg is the position as group_seek.sql takes it.
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
	// Message is the last message before the new position. It is zero without such a message.
	Message queue.ID
}

// seekTarget holds the database ids that a seek works on, and the epoch in which they are valid. An
// id is 0 if the name does not exist.
type seekTarget struct{ queue, group, partition, epoch int64 }

// Seek moves the cursors of a group in every partition of a queue and returns how many it moved: 0
// for an unknown queue or group. It works in pages, and each page takes effect at once: its leases
// end, so a later ack under them fails, and waiting requests look again. Errors: CodeUnavailable;
// then some cursors are moved, and the same request moves the rest.
func (c *Catalog) Seek(ctx context.Context, queueName, group string, to Position) (moved int64, err error) {
	target, err := c.seekTarget(ctx, queueName, group, nil)
	var announced int64
	for above := int64(0); err == nil && target.group != 0; {
		var ids, seqs []int64
		if ids, err = c.partitionsAbove(ctx, target.queue, above); err != nil || len(ids) == 0 {
			break
		}
		if seqs, err = c.seek(ctx, ids, target, to); err != nil {
			break
		}
		if moved == 0 && len(seqs) > 0 {
			// Consumers read the first page while the other pages are moved.
			c.publishSeek()
			announced = int64(len(seqs))
		}
		moved += int64(len(seqs))
		above = ids[len(ids)-1]
	}
	if err == nil && target.group != 0 {
		err = c.checkEpoch(ctx, target.epoch)
	}
	if moved > announced || err != nil {
		c.publishSeek()
	}
	if err != nil {
		return moved, postgres.Wrap(fmt.Errorf("moving group %q of queue %q: %w", group, queueName, err))
	}
	return moved, nil
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
		return out, postgres.Wrap(fmt.Errorf("moving group %q in partition %q of queue %q: %w", group, partition, queueName, err))
	}
	return out, nil
}

func (c *Catalog) seekPartition(ctx context.Context, target seekTarget, to Position) (PartitionSeek, error) {
	seqs, err := c.seek(ctx, []int64{target.partition}, target, to)
	if err == nil && len(seqs) == 0 {
		err = c.checkEpoch(ctx, target.epoch)
	}
	if err != nil || len(seqs) == 0 {
		return PartitionSeek{}, err
	}
	c.publishSeek()
	out := PartitionSeek{Moved: true}
	ctx, cancel := c.pool.Bounded(ctx)
	defer cancel()
	err = c.pool.QueryRow(ctx, sqlMessageAt, target.partition, seqs[0]).Scan((*[16]byte)(&out.Message))
	if postgres.IsNoRows(err) {
		err = nil
	}
	return out, err
}

func (c *Catalog) publishSeek() {
	c.events.Resync("a consumer group was moved", events.Here)
}

// seek moves the cursors of a group in some partitions and returns the seq that each is at now.
func (c *Catalog) seek(ctx context.Context, partitions []int64, target seekTarget, to Position) ([]int64, error) {
	seqs, err := c.ids(ctx, "moving cursors", sqlGroupSeek, partitions, target.group, to.arg(), target.epoch)
	if err == nil && len(seqs) > 0 {
		err = c.wake(ctx, partitions)
	}
	return seqs, err
}

func (c *Catalog) seekTarget(ctx context.Context, queueName, group string, partition *string) (seekTarget, error) {
	ctx, cancel := c.pool.Bounded(ctx)
	defer cancel()
	var q, g, p pgtype.Int8
	var epoch int64
	err := c.pool.QueryRow(ctx, sqlSeekTarget, queueName, group, partition).Scan(&q, &g, &p, &epoch)
	if postgres.IsNoRows(err) {
		return seekTarget{}, nil
	}
	return seekTarget{q.Int64, g.Int64, p.Int64, epoch}, err
}
