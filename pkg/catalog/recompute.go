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
	for above := int64(0); ; {
		ids, err := c.partitionsAbove(ctx, queueID, above)
		if err != nil {
			return err
		}
		if len(ids) == 0 {
			break
		}
		more, err := c.recomputePage(ctx, ids)
		if err != nil {
			return err
		}
		locked = append(locked, more...)
		above = ids[len(ids)-1]
	}
	for _, key := range locked {
		if err := c.recomputeOne(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

func (c *Catalog) isRecomputePending(queueID int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.recomputePending[queueID]
}

func (c *Catalog) setRecomputePending(queueID int64, pending bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if pending {
		c.recomputePending[queueID] = true
	} else {
		delete(c.recomputePending, queueID)
	}
}

// recomputePage recomputes the free cursors of some partitions. It returns the cursors that another
// transaction holds.
func (c *Catalog) recomputePage(ctx context.Context, partitions []int64) (locked []cursorKey, err error) {
	err = c.recomputeLocked(ctx, partitions, func(ctx context.Context, tx pgx.Tx) (taken []cursorKey, err error) {
		rows, err := tx.Query(ctx, sqlRearmLock, partitions)
		if err != nil {
			return nil, err
		}
		// The query returns every cursor with own = false, and again with own = true each cursor
		// that it locked.
		var all []cursorKey
		takenSet := map[cursorKey]bool{}
		var key cursorKey
		var own bool
		_, err = pgx.ForEachRow(rows, []any{&key.partition, &key.group, &own}, func() error {
			if own {
				taken, takenSet[key] = append(taken, key), true
			} else {
				all = append(all, key)
			}
			return nil
		})
		for _, key := range all {
			if !takenSet[key] {
				locked = append(locked, key)
			}
		}
		return taken, err
	})
	return locked, err
}

// recomputeOne waits for one cursor and recomputes it.
func (c *Catalog) recomputeOne(ctx context.Context, key cursorKey) error {
	return c.recomputeLocked(ctx, []int64{key.partition}, func(ctx context.Context, tx pgx.Tx) ([]cursorKey, error) {
		_, err := tx.Exec(ctx, sqlRearmWait, key.partition, key.group)
		return []cursorKey{key}, err
	})
}

// recomputeLocked recomputes the cursors that lock locks and returns, then wakes the partitions.
func (c *Catalog) recomputeLocked(ctx context.Context, partitions []int64, lock func(context.Context, pgx.Tx) ([]cursorKey, error)) error {
	bounded, cancel := c.pool.Bounded(ctx)
	defer cancel()
	err := pgx.BeginFunc(bounded, c.pool, func(tx pgx.Tx) error {
		keys, err := lock(bounded, tx)
		if err != nil {
			return err
		}
		partitionIDs, groupIDs := make([]int64, len(keys)), make([]int64, len(keys))
		for i, key := range keys {
			partitionIDs[i], groupIDs[i] = key.partition, key.group
		}
		_, err = tx.Exec(bounded, sqlRearm, partitionIDs, groupIDs)
		return err
	})
	if err != nil {
		return fmt.Errorf("recomputing when cursors are ready: %w", err)
	}
	return c.wake(ctx, partitions)
}
