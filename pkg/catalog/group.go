package catalog

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/belfry-mq/belfry/pkg/events"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/sql"
)

// DeletedGroup says what DeleteGroup took away.
type DeletedGroup struct {
	// Cursors is in how many partitions the group had a place.
	Cursors int64
}

// groupKey is a consumer group of one queue, by database id.
type groupKey struct{ queue, group int64 }

// DeleteGroup takes a consumer group away, from one queue or, when queueName is
// nil, from all. When it returns, its leases mean nothing any more, and the next
// pop of that name makes a new group; the rows underneath are purged by Run. The
// new group inherits nothing, but with keepSubscription it starts where the old
// one's stored subscription says. A group that does not exist is no error.
// Errors: CodeUnavailable; sending it again goes on with what is left.
func (c *Catalog) DeleteGroup(ctx context.Context, group string, queueName *string, keepSubscription bool) (DeletedGroup, error) {
	var out DeletedGroup
	found, life, err := c.groupsNamed(ctx, group, queueName)
	for _, key := range found {
		var cursors int64
		if cursors, err = c.cursorsOf(ctx, key); err != nil {
			break
		}
		var existed bool
		if existed, err = c.deleteGroup(ctx, key, life, keepSubscription); err != nil {
			break
		}
		if existed {
			out.Cursors += cursors
		}
	}
	if err == nil && len(found) > 0 {
		err = c.stillIn(ctx, life)
	}
	if len(found) > 0 || err != nil {
		c.requestPurge()
		c.events.Resync("a consumer group was deleted", events.Here)
	}
	if err != nil {
		return out, postgres.Wrap(fmt.Errorf("deleting consumer group %q: %w", group, err))
	}
	return out, nil
}

// groupsNamed returns where a group of that name is known, and in which life of the database.
func (c *Catalog) groupsNamed(ctx context.Context, group string, queueName *string) (found []groupKey, life int64, err error) {
	ctx, cancel := c.pool.Bounded(ctx)
	defer cancel()
	rows, err := c.pool.Query(ctx, sql.Query("catalog/groups_named"), group, queueName)
	if err != nil {
		return nil, 0, err
	}
	var key groupKey
	_, err = pgx.ForEachRow(rows, []any{&key.queue, &key.group, &life}, func() error {
		found = append(found, key)
		return nil
	})
	return found, life, err
}

// cursorsOf counts the places of a group, a page of partitions a statement.
func (c *Catalog) cursorsOf(ctx context.Context, key groupKey) (cursors int64, err error) {
	for above := int64(0); ; {
		var n int64
		above, n, err = c.cursorsAbove(ctx, key, above)
		switch {
		case postgres.IsNoRows(err):
			return cursors, nil
		case err != nil:
			return cursors, err
		case ctx.Err() != nil:
			return cursors, ctx.Err()
		}
		cursors += n
	}
}

func (c *Catalog) cursorsAbove(ctx context.Context, key groupKey, above int64) (upto, cursors int64, err error) {
	ctx, cancel := c.pool.Bounded(ctx)
	defer cancel()
	err = c.pool.QueryRow(ctx, sql.Query("catalog/group_cursors_count"), key.group, key.queue, above, int64(page)).Scan(&upto, &cursors)
	return upto, cursors, err
}

// deleteGroup begins the deletion of one group in a transaction of its own. The
// queue's lock keeps partitions and groups from being born meanwhile: they would
// get cursors of a group that is gone.
func (c *Catalog) deleteGroup(ctx context.Context, key groupKey, life int64, keepSubscription bool) (existed bool, err error) {
	ctx, cancel := c.pool.Bounded(ctx)
	defer cancel()
	err = pgx.BeginFunc(ctx, c.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sql.Query("catalog/group_lock"), key.queue); err != nil {
			return err
		}
		var name, mode string
		var start, created pgtype.Timestamptz
		err := tx.QueryRow(ctx, sql.Query("catalog/group_delete"), key.group, life).Scan(nil, &name, &mode, &start, &created)
		if postgres.IsNoRows(err) {
			return nil // somebody else was faster, or it is another life
		}
		if existed = err == nil; existed && keepSubscription && start.Valid {
			_, err = tx.Exec(ctx, sql.Query("catalog/group_keep"), key.queue, name, mode, start, created)
		}
		return err
	})
	return existed && err == nil, err
}

// MoveSubscription changes the instant at which the stored subscriptions of a
// group start, in all queues, and returns how many there are. Partitions that
// the group has a place in already are not affected: see Seek.
// Errors: CodeUnavailable.
func (c *Catalog) MoveSubscription(ctx context.Context, group string, start time.Time) (moved int64, err error) {
	moved, err = c.exec(ctx, "catalog/group_subscription", group, start)
	if err != nil {
		return 0, postgres.Wrap(fmt.Errorf("moving the subscription of group %q: %w", group, err))
	}
	return moved, nil
}
