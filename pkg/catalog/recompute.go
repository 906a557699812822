package catalog

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlRearm     = sql.Query("catalog/rearm")
	sqlRearmLock = sql.Query("catalog/rearm_lock")
	sqlRearmWait = sql.Query("catalog/rearm_wait")
)

// cursorKey names a cursor by its database ids.
type cursorKey struct{ partition, group int64 }

// recompute recomputes ready_at of every cursor of a queue.
//
//  1. The changed options are committed before.
//  2. For each cursor, one statement locks it and the next one computes. So the computation sees
//     everything that an earlier holder of the lock committed.
//  3. Cursors that another transaction holds come last, one per transaction. So recompute holds no
//     lock while it waits.
func (c *Catalog) recompute(ctx context.Context, queueID int64) error {
	var locked []cursorKey
	for ids, err := range c.pages(ctx, queueID) {
		if err != nil {
			return err
		}
		more, err := c.recomputeCursors(ctx, ids, sqlRearmLock, ids)
		if err != nil {
			return err
		}
		locked = append(locked, more...)
	}
	for _, key := range locked {
		if _, err := c.recomputeCursors(ctx, []int64{key.partition}, sqlRearmWait, key.partition, key.group); err != nil {
			return err
		}
	}
	return nil
}

// recomputeCursors recomputes the cursors that the statement lock locks, then wakes the partitions.
// It returns the cursors that another transaction holds.
func (c *Catalog) recomputeCursors(ctx context.Context, partitions []int64, lock string, args ...any) (locked []cursorKey, err error) {
	bounded, cancel := c.pool.Bounded(ctx)
	defer cancel()
	err = pgx.BeginFunc(bounded, c.pool, func(tx pgx.Tx) error {
		// The statement may return a cursor with own = false, and with own = true if it locked it.
		owned := map[cursorKey]bool{}
		var key cursorKey
		var own bool
		rows, _ := tx.Query(bounded, lock, args...)
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
				locked = append(locked, key)
			}
		}
		_, err = tx.Exec(bounded, sqlRearm, partitionIDs, groupIDs)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("recomputing when cursors are ready: %w", err)
	}
	return locked, c.wake(ctx, partitions)
}
