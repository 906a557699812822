package catalog

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/sql"
)

// cursor names one by its database ids.
type cursor struct{ partition, group int64 }

// rearm computes ready_at of every cursor of a queue anew, after the commit of what
// it depends on. The statement that computes comes after the one that locks, so it
// sees what a holder committed. Those that somebody holds come last and one at a
// time: who waits here holds nothing that others wait for.
func (c *Catalog) rearm(ctx context.Context, id int64) error {
	var held []cursor
	for above := int64(0); ; {
		ids, err := c.page(ctx, "catalog/queue_partitions", id, above, int64(page))
		if err != nil {
			return err
		}
		if len(ids) == 0 {
			break
		}
		late, err := c.rearmPage(ctx, ids)
		if err != nil {
			return err
		}
		held = append(held, late...)
		above = ids[len(ids)-1]
	}
	for _, one := range held {
		if err := c.rearmOne(ctx, one); err != nil {
			return err
		}
	}
	return nil
}

func (c *Catalog) isUnarmed(id int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unarmed[id]
}

func (c *Catalog) setUnarmed(id int64, unarmed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if unarmed {
		c.unarmed[id] = true
	} else {
		delete(c.unarmed, id)
	}
}

// rearmPage is rearm of those cursors of some partitions that nobody holds, and
// returns the others.
func (c *Catalog) rearmPage(ctx context.Context, partitions []int64) (held []cursor, err error) {
	err = c.rearming(ctx, partitions, func(ctx context.Context, tx pgx.Tx) (free []cursor, err error) {
		rows, err := tx.Query(ctx, sql.Query("catalog/rearm_lock"), partitions)
		if err != nil {
			return nil, err
		}
		var all []cursor
		locks := map[cursor]bool{}
		var one cursor
		var locked bool
		_, err = pgx.ForEachRow(rows, []any{&one.partition, &one.group, &locked}, func() error {
			if locked {
				free, locks[one] = append(free, one), true
			} else {
				all = append(all, one)
			}
			return nil
		})
		for _, one := range all {
			if !locks[one] {
				held = append(held, one)
			}
		}
		return free, err
	})
	return held, err
}

// rearmOne is rearm of one cursor, for which it waits.
func (c *Catalog) rearmOne(ctx context.Context, one cursor) error {
	return c.rearming(ctx, []int64{one.partition}, func(ctx context.Context, tx pgx.Tx) ([]cursor, error) {
		_, err := tx.Exec(ctx, sql.Query("catalog/rearm_wait"), one.partition, one.group)
		return []cursor{one}, err
	})
}

// rearming computes ready_at of what lock returns, and wakes the partitions.
func (c *Catalog) rearming(ctx context.Context, partitions []int64, lock func(context.Context, pgx.Tx) ([]cursor, error)) error {
	bounded, cancel := c.pool.Bounded(ctx)
	defer cancel()
	err := pgx.BeginFunc(bounded, c.pool, func(tx pgx.Tx) error {
		cursors, err := lock(bounded, tx)
		if err != nil {
			return err
		}
		places, groups := make([]int64, len(cursors)), make([]int64, len(cursors))
		for i, one := range cursors {
			places[i], groups[i] = one.partition, one.group
		}
		_, err = tx.Exec(bounded, sql.Query("catalog/rearm"), places, groups)
		return err
	})
	if err != nil {
		return fmt.Errorf("computing anew when cursors are ready: %w", err)
	}
	_, err = c.exec(ctx, "store/wake", partitions)
	return err
}
