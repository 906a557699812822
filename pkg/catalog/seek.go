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

// Place is where a seek moves a cursor: behind the last message with End, else
// behind the last one stored at or before After; before the first one when After
// is zero.
type Place struct {
	End   bool
	After time.Time
}

// arg is the place as group_seek.sql takes it.
func (p Place) arg() pgtype.Timestamptz {
	switch {
	case p.End:
		return pgtype.Timestamptz{InfinityModifier: pgtype.Infinity, Valid: true}
	case p.After.IsZero():
		return pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}
	default:
		return pgtype.Timestamptz{Time: p.After, Valid: true}
	}
}

// SoughtPartition says what became of one cursor.
type SoughtPartition struct {
	// Moved: the group had a place in the partition.
	Moved bool
	// Message is the last one before the new place; zero: there is none.
	Message queue.ID
}

// target are the database ids a seek works on, in a life of the database; 0 is what does
// not exist.
type target struct{ queue, group, partition, life int64 }

// Seek moves a group to place in every partition of a queue that it has a place
// in, and returns how many these are: none for an unknown queue or group. It
// works in pages, each effective at once: leases end, whatever was delivered
// under them cannot be acknowledged any more, and those who wait look again.
// Errors: CodeUnavailable; then some partitions were moved, and sending it again
// moves the rest.
func (c *Catalog) Seek(ctx context.Context, queueName, group string, place Place) (moved int64, err error) {
	t, err := c.target(ctx, queueName, group, nil)
	var told int64
	for above := int64(0); err == nil && t.group != 0; {
		var ids, places []int64
		if ids, err = c.page(ctx, "catalog/queue_partitions", t.queue, above, int64(page)); err != nil || len(ids) == 0 {
			break
		}
		if places, err = c.seek(ctx, ids, t, place); err != nil {
			break
		}
		if moved == 0 {
			// Consumers go on with the first page while the others are moved.
			c.announceSeek(places)
			told = int64(len(places))
		}
		moved += int64(len(places))
		above = ids[len(ids)-1]
	}
	if err == nil && t.group != 0 {
		err = c.stillIn(ctx, t.life)
	}
	if moved > told || err != nil {
		c.events.Resync("a consumer group was moved", events.Here)
	}
	if err != nil {
		return moved, postgres.Wrap(fmt.Errorf("moving group %q of queue %q: %w", group, queueName, err))
	}
	return moved, nil
}

// SeekPartition is Seek for one partition. Errors: CodeNotFound for an unknown
// queue or partition, CodeUnavailable.
func (c *Catalog) SeekPartition(ctx context.Context, queueName, group, partition string, place Place) (SoughtPartition, error) {
	t, err := c.target(ctx, queueName, group, &partition)
	if err == nil && t.partition == 0 {
		return SoughtPartition{}, &queue.Error{Code: queue.CodeNotFound, Message: "Partition not found"}
	}
	var out SoughtPartition
	if err == nil && t.group != 0 {
		out, err = c.seekPartition(ctx, t, place)
	}
	if err != nil {
		c.events.Resync("the outcome of moving a consumer group is unknown", events.Here)
		return out, postgres.Wrap(fmt.Errorf("moving group %q in partition %q of queue %q: %w", group, partition, queueName, err))
	}
	return out, nil
}

func (c *Catalog) seekPartition(ctx context.Context, t target, place Place) (SoughtPartition, error) {
	places, err := c.seek(ctx, []int64{t.partition}, t, place)
	if err == nil && len(places) == 0 {
		err = c.stillIn(ctx, t.life)
	}
	if err != nil || len(places) == 0 {
		return SoughtPartition{}, err
	}
	c.announceSeek(places)
	out := SoughtPartition{Moved: true}
	ctx, cancel := c.pool.Bounded(ctx)
	defer cancel()
	err = c.pool.QueryRow(ctx, sql.Query("catalog/message_at"), t.partition, places[0]).Scan((*[16]byte)(&out.Message))
	if postgres.IsNoRows(err) {
		err = nil
	}
	return out, err
}

func (c *Catalog) announceSeek(places []int64) {
	if len(places) > 0 {
		c.events.Resync("a consumer group was moved", events.Here)
	}
}

// seek moves the cursors of a group in some partitions and returns where they
// are now.
func (c *Catalog) seek(ctx context.Context, partitions []int64, t target, place Place) ([]int64, error) {
	places, err := c.page(ctx, "catalog/group_seek", partitions, t.group, place.arg(), t.life)
	if err == nil && len(places) > 0 {
		_, err = c.exec(ctx, "store/wake", partitions)
	}
	return places, err
}

func (c *Catalog) target(ctx context.Context, queueName, group string, partition *string) (target, error) {
	ctx, cancel := c.pool.Bounded(ctx)
	defer cancel()
	var q, g, p pgtype.Int8
	var life int64
	err := c.pool.QueryRow(ctx, sql.Query("catalog/seek_target"), queueName, group, partition).Scan(&q, &g, &p, &life)
	if postgres.IsNoRows(err) {
		return target{}, nil
	}
	return target{q.Int64, g.Int64, p.Int64, life}, err
}

// stillIn says whether the database is in the life in which something was begun; in
// another one, what was named by its ids there was left alone. Errors: CodeUnavailable.
func (c *Catalog) stillIn(ctx context.Context, life int64) error {
	ctx, cancel := c.pool.Bounded(ctx)
	defer cancel()
	var now int64
	if err := c.pool.QueryRow(ctx, sql.Query("store/epoch")).Scan(&now); err != nil {
		return err
	}
	if now != life {
		return &queue.Error{
			Code: queue.CodeUnavailable, RetryAfter: postgres.RetryAfter,
			Message: "the database was started again, or restored, meanwhile; send the request again",
		}
	}
	return nil
}
