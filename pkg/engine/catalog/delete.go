package catalog

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/sql"
)

const (
	// purgePageSize is the maximum number of rows that one statement deletes.
	purgePageSize = 5000
	// purgeRetry is the pause after a purge that failed.
	purgeRetry = 5 * time.Second
)

var (
	sqlQueueDelete       = sql.Query("engine/catalog/queue_delete")
	sqlPartitionsClose   = sql.Query("engine/catalog/partitions_close")
	sqlCursorsDelete     = sql.Query("engine/catalog/cursors_delete")
	sqlQueuesDeleted     = sql.Query("engine/catalog/queues_deleted")
	sqlPartitionsClosed  = sql.Query("engine/catalog/partitions_closed")
	sqlTenantsPurge      = sql.Query("engine/catalog/tenants_purge")
	sqlPartitionsPurge   = sql.Query("engine/catalog/partitions_purge")
	sqlGroupsDeleted     = sql.Query("engine/catalog/groups_deleted")
	sqlGroupCursorsPurge = sql.Query("engine/catalog/group_cursors_purge")
	sqlGroupPurged       = sql.Query("engine/catalog/group_purged")
	sqlGroupLimitsPurge  = sql.Query("engine/catalog/group_limits_purge")

	purgePartitionRows = []statement{
		{"purging messages", sql.Query("engine/catalog/messages_purge")},
		{"purging dead letters", sql.Query("engine/catalog/dead_letters_purge")},
		{"purging redrives", sql.Query("engine/catalog/redrives_purge")},
		{"purging failed attempts", sql.Query("engine/catalog/attempts_purge")},
		{"purging marks of resends", sql.Query("engine/catalog/resent_purge")},
		{"purging traces", sql.Query("engine/catalog/traces_purge")},
		{"purging the state of streams", sql.Query("engine/catalog/state_purge")},
	}
	purgeQueueRows = []statement{
		{"purging limits", sql.Query("engine/catalog/limits_purge")},
		{"purging consumer groups", sql.Query("engine/catalog/groups_purge")},
		{"purging a queue", sql.Query("engine/catalog/queue_purge")},
	}
	purgeGroupRows = []statement{
		{"purging redrives of a group", sql.Query("engine/catalog/group_redrives_purge")},
		{"purging failed attempts of a group", sql.Query("engine/catalog/group_attempts_purge")},
		{"purging dead letters of a group", sql.Query("engine/catalog/group_dead_letters_purge")},
	}
)

// Delete marks a queue as deleted and reports whether it existed. When Delete returns, the name is
// free and no verb reaches the messages of the queue. Run closes its partitions and purges its
// rows. Errors: CodeUnavailable; if the mark was committed, Run deletes the queue nevertheless.
func (c *Catalog) Delete(ctx context.Context, name string) (existed bool, err error) {
	err = c.pool.InTransaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		deleted, err := tx.Exec(ctx, sqlQueueDelete, name)
		if err != nil {
			return err
		}
		existed = deleted.RowsAffected() > 0
		return audit.Write(ctx, tx, audit.Counts{"queues": deleted.RowsAffected()})
	})
	if err == nil && !existed {
		return false, nil
	}
	c.purgeRequested.Set()
	c.events.Resync("a queue was deleted", events.Here)
	return true, postgres.Wrapf(err, "deleting queue %q", name)
}

// closePartitions closes every partition of a queue, page by page.
func (c *Catalog) closePartitions(ctx context.Context, queueID int64) error {
	for from := ""; ; {
		closed, upto, err := c.closePage(ctx, queueID, from)
		if err != nil {
			return err
		}
		switch {
		case closed > 0:
			from = upto
		case from == "":
			return nil
		default:
			// Another process may close the partitions of this page at the same time. Then closed is 0
			// although later pages have open partitions. So only a pass from the beginning that finds
			// no open partition proves that none is left.
			from = ""
		}
	}
}

// closePage closes a page of partitions and deletes their cursors. The names of the partitions are
// start or later. upto is the name of the last partition of the page.
func (c *Catalog) closePage(ctx context.Context, queueID int64, start string) (closed int, upto string, err error) {
	err = c.pool.InTransaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, _ := tx.Query(ctx, sqlPartitionsClose, queueID, int64(pageSize), start) // CollectRows returns the error
		ids, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (id int64, err error) {
			err = row.Scan(&id, &upto)
			return id, err
		})
		if err != nil {
			return err
		}
		closed = len(ids)
		_, err = tx.Exec(ctx, sqlCursorsDelete, ids)
		return err
	})
	if err != nil {
		return 0, "", fmt.Errorf("closing partitions: %w", err)
	}
	return closed, upto, nil
}

// statement is a SQL statement with its description for errors.
type statement struct{ what, text string }

// Run purges deleted queues and groups until ctx ends: at the start, and after each Delete and
// DeleteGroup. A purge that fails is logged and repeated after purgeRetry. Run returns nil.
func (c *Catalog) Run(ctx context.Context) error {
	retry := time.NewTimer(0)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-retry.C:
		case <-c.purgeRequested:
		}
		if err := c.Purge(ctx); err != nil && ctx.Err() == nil {
			c.log.Warn("purging deleted queues and groups failed; it will be tried again", zap.Error(err), zap.Duration("after", purgeRetry))
			retry.Reset(purgeRetry)
		}
	}
}

// Purge deletes the rows of every deleted queue and consumer group in small transactions. Several
// instances may purge at the same time. It returns ctx.Err() if ctx ends first; the next call
// deletes the rest.
func (c *Catalog) Purge(ctx context.Context) error {
	queues, err := c.ids(ctx, "listing deleted queues", sqlQueuesDeleted)
	if err != nil {
		return err
	}
	for _, id := range queues {
		if err := c.purgeQueue(ctx, id); err != nil {
			return err
		}
	}
	groups, err := postgres.Collect(ctx, c.pool, sqlGroupsDeleted, pgx.RowToStructByPos[groupKey])
	if err != nil {
		return fmt.Errorf("listing deleted groups: %w", err)
	}
	for _, key := range groups {
		if err := c.purgeGroup(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

func (c *Catalog) purgeQueue(ctx context.Context, id int64) error {
	if err := c.closePartitions(ctx, id); err != nil {
		return err
	}
	for {
		ids, err := c.ids(ctx, "listing closed partitions", sqlPartitionsClosed, id, int64(pageSize))
		if err != nil {
			return err
		}
		if len(ids) == 0 {
			break
		}
		if err := c.deleteAll(ctx, purgePartitionRows, ids, int64(purgePageSize)); err != nil {
			return err
		}
		if _, err := c.exec(ctx, "purging partitions", sqlPartitionsPurge, ids); err != nil {
			return err
		}
	}
	if err := c.deleteAll(ctx, []statement{{"purging tenants", sqlTenantsPurge}}, id, int64(purgePageSize)); err != nil {
		return err
	}
	for _, s := range purgeQueueRows {
		if _, err := c.exec(ctx, s.what, s.text, id); err != nil {
			return err
		}
	}
	return nil
}

// deleteAll repeats each statement until it deletes nothing, or ctx ends.
func (c *Catalog) deleteAll(ctx context.Context, statements []statement, args ...any) error {
	for _, s := range statements {
		for {
			deleted, err := c.exec(ctx, s.what, s.text, args...)
			if err != nil {
				return err
			}
			if deleted == 0 {
				break
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
	}
	return nil
}

// purgeGroup deletes the cursors of a deleted group, then its dead letters and redrives. An ack
// writes dead letters while it holds the cursor, so no dead letter appears after the cursor is
// deleted.
func (c *Catalog) purgeGroup(ctx context.Context, key groupKey) error {
	for ids, err := range c.pages(ctx, key.Queue) {
		if err != nil {
			return err
		}
		if _, err := c.exec(ctx, "purging cursors of a group", sqlGroupCursorsPurge, ids, key.Group); err != nil {
			return err
		}
		if err := c.deleteAll(ctx, purgeGroupRows, ids, key.Group, int64(purgePageSize)); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	_, err := c.exec(ctx, "purging the state of limits of a group", sqlGroupLimitsPurge, key.Group)
	if err == nil {
		_, err = c.exec(ctx, "marking a group as purged", sqlGroupPurged, key.Group)
	}
	return err
}
