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

var (
	sqlGroupsNamed       = sql.Query("catalog/groups_named")
	sqlGroupCursorsCount = sql.Query("catalog/group_cursors_count")
	sqlGroupLock         = sql.Query("catalog/group_lock")
	sqlGroupDelete       = sql.Query("catalog/group_delete")
	sqlGroupKeep         = sql.Query("catalog/group_keep")
	sqlGroupSubscription = sql.Query("catalog/group_subscription")
)

// DeletedGroup is the result of DeleteGroup.
type DeletedGroup struct {
	// Cursors is the number of partitions in which the group had a cursor.
	Cursors int64
}

// groupKey is a consumer group of one queue, by database id.
type groupKey struct{ queue, group int64 }

// DeleteGroup deletes a consumer group from one queue, or from all queues if queueName is nil. When
// it returns, the leases of the group are fenced, and the next pop with that name creates a new
// group. Run purges the rows. The new group inherits nothing. With keepSubscription it inherits the
// stored subscription, that is, where the old group started. A group that does not exist is no
// error. Errors: CodeUnavailable; the same request deletes the rest.
func (c *Catalog) DeleteGroup(ctx context.Context, group string, queueName *string, keepSubscription bool) (DeletedGroup, error) {
	var out DeletedGroup
	found, epoch, err := c.groupsNamed(ctx, group, queueName)
	for _, key := range found {
		var cursors int64
		if cursors, err = c.countCursors(ctx, key); err != nil {
			break
		}
		var existed bool
		if existed, err = c.deleteGroup(ctx, key, epoch, keepSubscription); err != nil {
			break
		}
		if existed {
			out.Cursors += cursors
		}
	}
	if err == nil && len(found) > 0 {
		err = c.checkEpoch(ctx, epoch)
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

// groupsNamed returns the groups with that name and the epoch of the database.
func (c *Catalog) groupsNamed(ctx context.Context, group string, queueName *string) (found []groupKey, epoch int64, err error) {
	ctx, cancel := c.pool.Bounded(ctx)
	defer cancel()
	rows, err := c.pool.Query(ctx, sqlGroupsNamed, group, queueName)
	if err != nil {
		return nil, 0, err
	}
	var key groupKey
	_, err = pgx.ForEachRow(rows, []any{&key.queue, &key.group, &epoch}, func() error {
		found = append(found, key)
		return nil
	})
	return found, epoch, err
}

// countCursors counts the cursors of a group, one page of partitions per statement.
func (c *Catalog) countCursors(ctx context.Context, key groupKey) (cursors int64, err error) {
	for above := int64(0); ; {
		var n int64
		above, n, err = c.countCursorsAbove(ctx, key, above)
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

func (c *Catalog) countCursorsAbove(ctx context.Context, key groupKey, above int64) (upto, cursors int64, err error) {
	ctx, cancel := c.pool.Bounded(ctx)
	defer cancel()
	err = c.pool.QueryRow(ctx, sqlGroupCursorsCount, key.group, key.queue, above, int64(pageSize)).Scan(&upto, &cursors)
	return upto, cursors, err
}

// deleteGroup deletes the row of one group in a transaction of its own. It locks the queue, so that
// no partition is created meanwhile: the partition would get a cursor of the deleted group.
func (c *Catalog) deleteGroup(ctx context.Context, key groupKey, epoch int64, keepSubscription bool) (existed bool, err error) {
	ctx, cancel := c.pool.Bounded(ctx)
	defer cancel()
	err = pgx.BeginFunc(ctx, c.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sqlGroupLock, key.queue); err != nil {
			return err
		}
		var name, mode string
		var start, created pgtype.Timestamptz
		err := tx.QueryRow(ctx, sqlGroupDelete, key.group, epoch).Scan(nil, &name, &mode, &start, &created)
		if postgres.IsNoRows(err) {
			return nil // another request deleted the group, or the epoch changed
		}
		if existed = err == nil; existed && keepSubscription && start.Valid {
			_, err = tx.Exec(ctx, sqlGroupKeep, key.queue, name, mode, start, created)
		}
		return err
	})
	return existed && err == nil, err
}

// MoveSubscription changes the start instant of the stored subscriptions of a group in all queues.
// It returns the number of changed subscriptions. Existing cursors do not move: use Seek for them.
// Errors: CodeUnavailable.
func (c *Catalog) MoveSubscription(ctx context.Context, group string, start time.Time) (moved int64, err error) {
	moved, err = c.exec(ctx, fmt.Sprintf("moving the subscription of group %q", group), sqlGroupSubscription, group, start)
	return moved, postgres.Wrap(err)
}
