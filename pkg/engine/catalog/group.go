package catalog

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlGroupsNamed       = sql.Query("engine/catalog/groups_named")
	sqlGroupCursorsCount = sql.Query("engine/catalog/group_cursors_count")
	sqlGroupLock         = sql.Query("engine/catalog/group_lock")
	sqlGroupDelete       = sql.Query("engine/catalog/group_delete")
	sqlGroupKeep         = sql.Query("engine/catalog/group_keep")
	sqlGroupSubscription = sql.Query("engine/catalog/group_subscription")
)

// DeletedGroup is the result of DeleteGroup.
type DeletedGroup struct {
	// Cursors is the number of partitions in which the group had a cursor.
	Cursors int64
}

// groupKey is a consumer group of one queue, by database id.
type groupKey struct{ Queue, Group int64 }

// groupCounts are the numbers of groups and cursors that a call of DeleteGroup deleted.
type groupCounts struct{ groups, cursors int64 }

// groupDeletion is the deletion of one group. counts includes this group.
type groupDeletion struct {
	groupKey
	epoch            int64
	keepSubscription bool
	counts           groupCounts
}

// DeleteGroup deletes a consumer group from one queue, or from all queues if queueName is nil. When
// DeleteGroup returns, the leases of the group are fenced, and the next pop with that name creates
// a new group. Run purges the rows. With keepSubscription, the new group inherits the stored
// subscription, that is, where the old group started. Otherwise it inherits nothing. If the group
// does not exist, DeleteGroup returns no error. Errors: CodeUnavailable; the same request deletes
// the rest.
func (c *Catalog) DeleteGroup(ctx context.Context, group string, queueName *string, keepSubscription bool) (DeletedGroup, error) {
	var out DeletedGroup
	var counts groupCounts
	found, epoch, err := c.groupsNamed(ctx, group, queueName)
	for _, key := range found {
		var cursors int64
		if cursors, err = c.countCursors(ctx, key); err != nil {
			break
		}
		next := groupDeletion{groupKey: key, epoch: epoch, keepSubscription: keepSubscription, counts: counts}
		next.counts.groups++
		next.counts.cursors += cursors
		var existed bool
		if existed, err = c.deleteGroup(ctx, next); err != nil {
			break
		}
		if existed {
			counts = next.counts
		}
	}
	out.Cursors = counts.cursors
	if err == nil && len(found) > 0 {
		err = c.pool.CheckEpoch(ctx, epoch)
	}
	if len(found) > 0 || err != nil {
		c.purgeRequested.Set()
		c.events.Resync("a consumer group was deleted", events.Here)
	}
	return out, postgres.Wrapf(err, "deleting consumer group %q", group)
}

// groupsNamed returns the groups with that name and the epoch of the database.
func (c *Catalog) groupsNamed(ctx context.Context, group string, queueName *string) (found []groupKey, epoch int64, err error) {
	found, err = postgres.Collect(ctx, c.pool, sqlGroupsNamed, func(row pgx.CollectableRow) (key groupKey, err error) {
		err = row.Scan(&key.Queue, &key.Group, &epoch)
		return key, err
	}, group, queueName)
	return found, epoch, err
}

// countCursors counts the cursors of a group, one page of partitions per statement.
func (c *Catalog) countCursors(ctx context.Context, key groupKey) (cursors int64, err error) {
	var above, n int64
	for ctx.Err() == nil {
		err := c.pool.ScanRow(ctx, []any{&above, &n}, sqlGroupCursorsCount, key.Group, key.Queue, above, int64(pageSize))
		if postgres.IsNoRows(err) {
			return cursors, nil
		}
		if err != nil {
			return cursors, err
		}
		cursors += n
	}
	return cursors, ctx.Err()
}

// deleteGroup deletes the row of one group in a transaction of its own. It locks the queue, so that
// no partition is created meanwhile: the partition would get a cursor of the deleted group.
func (c *Catalog) deleteGroup(ctx context.Context, d groupDeletion) (existed bool, err error) {
	err = c.pool.InTransaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sqlGroupLock, d.Queue); err != nil {
			return err
		}
		var name, mode string
		var start, created pgtype.Timestamptz
		err := tx.QueryRow(ctx, sqlGroupDelete, d.Group, d.epoch).Scan(nil, &name, &mode, &start, &created)
		if postgres.IsNoRows(err) {
			return nil // another request deleted the group, or the epoch changed
		}
		if existed = err == nil; existed && d.keepSubscription && start.Valid {
			_, err = tx.Exec(ctx, sqlGroupKeep, d.Queue, name, mode, start, created)
		}
		if err != nil {
			return err
		}
		return audit.Write(ctx, tx, audit.Counts{"groups": d.counts.groups, "cursors": d.counts.cursors})
	})
	return existed && err == nil, err
}

// SetSubscriptionStart changes the start instant of the stored subscriptions of a group in all queues.
// It returns the number of changed subscriptions. Existing cursors do not move: use Seek for them.
// Errors: CodeUnavailable.
func (c *Catalog) SetSubscriptionStart(ctx context.Context, group string, start time.Time) (changed int64, err error) {
	err = c.pool.InTransaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, sqlGroupSubscription, group, start)
		if err != nil {
			return err
		}
		changed = tag.RowsAffected()
		return audit.Write(ctx, tx, audit.Counts{"subscriptions": changed})
	})
	return changed, postgres.Wrapf(err, "setting the start of group %q", group)
}
