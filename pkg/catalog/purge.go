package catalog

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/sql"
)

const (
	// purgePageSize is how many rows one statement deletes.
	purgePageSize = 5000
	// purgeRetry is the pause after a purge that failed.
	purgeRetry = 5 * time.Second
)

// statement is a SQL statement with its description for errors.
type statement struct{ what, text string }

var (
	sqlQueuesDeleted     = sql.Query("catalog/queues_deleted")
	sqlPartitionsClosed  = sql.Query("catalog/partitions_closed")
	sqlPartitionsPurge   = sql.Query("catalog/partitions_purge")
	sqlGroupsDeleted     = sql.Query("catalog/groups_deleted")
	sqlGroupCursorsPurge = sql.Query("catalog/group_cursors_purge")
	sqlGroupPurged       = sql.Query("catalog/group_purged")

	purgePartitionRows = []statement{
		{"purging messages", sql.Query("catalog/messages_purge")},
		{"purging dead letters", sql.Query("catalog/dead_letters_purge")},
		{"purging redrives", sql.Query("catalog/redrives_purge")},
		{"purging traces", sql.Query("catalog/traces_purge")},
	}
	purgeQueueRows = []statement{
		{"purging consumer groups", sql.Query("catalog/groups_purge")},
		{"purging a queue", sql.Query("catalog/queue_purge")},
	}
	purgeGroupRows = []statement{
		{"purging redrives of a group", sql.Query("catalog/group_redrives_purge")},
		{"purging dead letters of a group", sql.Query("catalog/group_dead_letters_purge")},
	}
)

// Run purges deleted queues and groups until ctx ends: at the start, and after each Delete and
// DeleteGroup. A purge that fails is logged and repeated after 5
// seconds. Run returns nil.
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
	groups, err := c.groupsDeleted(ctx)
	if err != nil {
		return err
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
// writes dead letters while it holds the cursor, so none appears after the cursor is deleted.
func (c *Catalog) purgeGroup(ctx context.Context, key groupKey) error {
	for above := int64(0); ; {
		ids, err := c.partitionsAbove(ctx, key.queue, above)
		if err != nil {
			return err
		}
		if len(ids) == 0 {
			break
		}
		if _, err := c.exec(ctx, "purging cursors of a group", sqlGroupCursorsPurge, ids, key.group); err != nil {
			return err
		}
		if err := c.deleteAll(ctx, purgeGroupRows, ids, key.group, int64(purgePageSize)); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		above = ids[len(ids)-1]
	}
	_, err := c.exec(ctx, "marking a group as purged", sqlGroupPurged, key.group)
	return err
}

func (c *Catalog) groupsDeleted(ctx context.Context) ([]groupKey, error) {
	ctx, cancel := c.pool.Bounded(ctx)
	defer cancel()
	rows, err := c.pool.Query(ctx, sqlGroupsDeleted)
	if err != nil {
		return nil, fmt.Errorf("listing deleted groups: %w", err)
	}
	groups, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (key groupKey, err error) {
		err = row.Scan(&key.group, &key.queue)
		return key, err
	})
	if err != nil {
		return nil, fmt.Errorf("listing deleted groups: %w", err)
	}
	return groups, nil
}
