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
	// purgePage is how many messages one transaction deletes.
	purgePage = 5000
	// purgeRetry is the pause after a purge that failed.
	purgeRetry = 5 * time.Second
)

// Run purges what was deleted: at the start what an earlier process left, then
// after each Delete and DeleteGroup. It returns nil when ctx ends.
func (c *Catalog) Run(ctx context.Context) error {
	retry := time.NewTimer(0)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-retry.C:
		case <-c.purge:
		}
		if err := c.Purge(ctx); err != nil && ctx.Err() == nil {
			c.log.Warn("purging deleted queues and groups failed; it will be tried again", zap.Error(err), zap.Duration("after", purgeRetry))
			retry.Reset(purgeRetry)
		}
	}
}

// Purge deletes the rows of every queue and every consumer group whose deletion
// has begun, in small transactions. Two instances may do it at once.
func (c *Catalog) Purge(ctx context.Context) error {
	queues, err := c.page(ctx, "catalog/queues_deleted")
	if err != nil {
		return err
	}
	for _, id := range queues {
		if err := c.purgeQueue(ctx, id); err != nil {
			return err
		}
	}
	return c.purgeGroups(ctx)
}

func (c *Catalog) purgeQueue(ctx context.Context, id int64) error {
	if err := c.closePartitions(ctx, id); err != nil {
		return err
	}
	for {
		ids, err := c.page(ctx, "catalog/partitions_closed", id, int64(page))
		if err != nil {
			return err
		}
		if len(ids) == 0 {
			break
		}
		for _, query := range []string{"catalog/messages_purge", "catalog/dead_letters_purge", "catalog/redrives_purge", "catalog/traces_purge"} {
			if err := c.repeat(ctx, query, ids, int64(purgePage)); err != nil {
				return err
			}
		}
		if _, err := c.exec(ctx, "catalog/partitions_purge", ids); err != nil {
			return err
		}
	}
	for _, query := range []string{"catalog/groups_purge", "catalog/queue_purge"} {
		if _, err := c.exec(ctx, query, id); err != nil {
			return err
		}
	}
	return nil
}

// repeat runs a statement until it finds nothing to delete, or ctx ends.
func (c *Catalog) repeat(ctx context.Context, query string, args ...any) error {
	for {
		deleted, err := c.exec(ctx, query, args...)
		if err != nil || deleted == 0 {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

func (c *Catalog) purgeGroups(ctx context.Context) error {
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

// purgeGroup deletes the cursors of a deleted group, then its dead letters and
// redrives: an acknowledgment parks messages while it holds the cursor, so once
// that is gone there will be no more.
func (c *Catalog) purgeGroup(ctx context.Context, key groupKey) error {
	for above := int64(0); ; {
		ids, err := c.page(ctx, "catalog/queue_partitions", key.queue, above, int64(page))
		if err != nil {
			return err
		}
		if len(ids) == 0 {
			break
		}
		if _, err := c.exec(ctx, "catalog/group_cursors_purge", ids, key.group); err != nil {
			return err
		}
		for _, query := range []string{"catalog/group_redrives_purge", "catalog/group_dead_letters_purge"} {
			if err := c.repeat(ctx, query, ids, key.group, int64(purgePage)); err != nil {
				return err
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		above = ids[len(ids)-1]
	}
	_, err := c.exec(ctx, "catalog/group_purged", key.group)
	return err
}

func (c *Catalog) groupsDeleted(ctx context.Context) ([]groupKey, error) {
	ctx, cancel := c.pool.Bounded(ctx)
	defer cancel()
	rows, err := c.pool.Query(ctx, sql.Query("catalog/groups_deleted"))
	if err != nil {
		return nil, fmt.Errorf("running groups_deleted: %w", err)
	}
	groups, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (key groupKey, err error) {
		err = row.Scan(&key.group, &key.queue)
		return key, err
	})
	if err != nil {
		return nil, fmt.Errorf("running groups_deleted: %w", err)
	}
	return groups, nil
}
