package catalog

import (
	"context"
	"time"

	"go.uber.org/zap"
)

const (
	// purgePage is how many messages one transaction deletes.
	purgePage = 5000
	// purgeRetry is the pause after a purge that failed.
	purgeRetry = 5 * time.Second
)

// Run purges what was deleted: at the start what an earlier process left, then
// after each Delete. It returns nil when ctx ends.
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
			c.log.Warn("purging deleted queues failed; it will be tried again", zap.Error(err), zap.Duration("after", purgeRetry))
			retry.Reset(purgeRetry)
		}
	}
}

// Purge deletes the rows of every queue whose deletion has begun, in small
// transactions. Two instances may do it at once.
func (c *Catalog) Purge(ctx context.Context) error {
	queues, err := c.page(ctx, "queues_deleted")
	if err != nil {
		return err
	}
	for _, id := range queues {
		if err := c.purgeQueue(ctx, id); err != nil {
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
		ids, err := c.page(ctx, "partitions_closed", id, int64(page))
		if err != nil {
			return err
		}
		if len(ids) == 0 {
			break
		}
		for _, query := range []string{"messages_purge", "dead_letters_purge", "redrives_purge", "traces_purge"} {
			for deleted := int64(purgePage); deleted > 0; {
				if deleted, err = c.exec(ctx, query, ids, int64(purgePage)); err != nil {
					return err
				}
				if ctx.Err() != nil {
					return ctx.Err()
				}
			}
		}
		if _, err := c.exec(ctx, "partitions_purge", ids); err != nil {
			return err
		}
	}
	for _, query := range []string{"groups_purge", "queue_purge"} {
		if _, err := c.exec(ctx, query, id); err != nil {
			return err
		}
	}
	return nil
}
