package catalog

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/pkg/events"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlQueueDelete     = sql.Query("catalog/queue_delete")
	sqlPartitionsClose = sql.Query("catalog/partitions_close")
	sqlCursorsDelete   = sql.Query("catalog/cursors_delete")
)

// Delete marks a queue as deleted and reports whether it existed. When Delete returns, the name is
// free and no verb reaches the messages of the queue. Run closes its partitions and purges its
// rows. Errors: CodeUnavailable; the next start continues a deletion that was begun.
func (c *Catalog) Delete(ctx context.Context, name string) (existed bool, err error) {
	stepCtx, cancel := c.pool.Bounded(ctx)
	defer cancel()
	err = c.pool.QueryRow(stepCtx, sqlQueueDelete, name).Scan(nil)
	if postgres.IsNoRows(err) {
		return false, nil
	}
	c.requestPurge()
	c.events.Resync("a queue was deleted", events.Here)
	if err != nil {
		return true, postgres.Wrap(fmt.Errorf("deleting queue %q: %w", name, err))
	}
	return true, nil
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
			// Another process may close the same queue. A pass from the beginning that finds
			// nothing proves that no partition was left out.
			from = ""
		}
	}
}

// closePage closes a page of partitions and deletes their cursors. The page begins at a partition
// name and ends at upto.
func (c *Catalog) closePage(ctx context.Context, queueID int64, from string) (closed int, upto string, err error) {
	ctx, cancel := c.pool.Bounded(ctx)
	defer cancel()
	err = pgx.BeginFunc(ctx, c.pool, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, sqlPartitionsClose, queueID, int64(pageSize), from)
		if err != nil {
			return err
		}
		var ids []int64
		var id int64
		if _, err = pgx.ForEachRow(rows, []any{&id, &upto}, func() error {
			ids = append(ids, id)
			return nil
		}); err != nil {
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
