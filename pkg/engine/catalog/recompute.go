package catalog

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlRecomputeReady     = sql.Query("engine/catalog/recompute_ready")
	sqlRecomputeReadyLock = sql.Query("engine/catalog/recompute_ready_lock")
	sqlRecomputeReadyWait = sql.Query("engine/catalog/recompute_ready_wait")
)

// cursorKey names a cursor by its database ids.
type cursorKey struct{ partition, group int64 }

// recompute recomputes ready_at of every cursor of a queue.
//
//  1. The changed options are committed before.
//  2. For each cursor, one statement locks it and the next one computes. So the computation sees
//     everything that a transaction with an earlier lock committed.
//  3. Cursors that another transaction has locked come last, one per transaction. So recompute has
//     locked no cursor while it waits for one.
func (c *Catalog) recompute(ctx context.Context, queueID int64) error {
	var lockedByOthers []cursorKey
	for ids, err := range c.pages(ctx, queueID) {
		if err != nil {
			return err
		}
		more, err := c.recomputeCursors(ctx, ids, sqlRecomputeReadyLock, ids)
		if err != nil {
			return err
		}
		lockedByOthers = append(lockedByOthers, more...)
	}
	for _, key := range lockedByOthers {
		if _, err := c.recomputeCursors(ctx, []int64{key.partition}, sqlRecomputeReadyWait, key.partition, key.group); err != nil {
			return err
		}
	}
	return nil
}

// recomputeCursors recomputes the cursors that the statement lock locks, then wakes the partitions.
// It returns the cursors that another transaction has locked.
func (c *Catalog) recomputeCursors(ctx context.Context, partitions []int64, lock string, args ...any) (lockedByOthers []cursorKey, err error) {
	err = c.pool.InTransaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		// The statement returns a cursor twice if it locked it: with own = false, and with own = true.
		owned := map[cursorKey]bool{}
		var key cursorKey
		var own bool
		rows, _ := tx.Query(ctx, lock, args...)
		_, err := pgx.ForEachRow(rows, []any{&key.partition, &key.group, &own}, func() error { // also returns the error of Query
			owned[key] = owned[key] || own
			return nil
		})
		if err != nil {
			return err
		}
		var partitionIDs, groupIDs []int64
		for key, own := range owned {
			if own {
				partitionIDs, groupIDs = append(partitionIDs, key.partition), append(groupIDs, key.group)
			} else {
				lockedByOthers = append(lockedByOthers, key)
			}
		}
		_, err = tx.Exec(ctx, sqlRecomputeReady, partitionIDs, groupIDs)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("recomputing when cursors are ready: %w", err)
	}
	return lockedByOthers, c.wake(ctx, partitions)
}
