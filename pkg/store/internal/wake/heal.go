package wake

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlHeal            = sql.Query("store/heal")
	sqlGroupPartitions = sql.Query("store/group_partitions")
)

// healPage is how many partitions one statement of Heal covers.
const healPage = 5000

// Heal wakes every partition that needs a wake: a cursor says that nothing is left although
// something is. Only a crash between a commit and its wake leaves such a cursor. Heal works page by
// page, so no statement takes long. It returns how many partitions a wake changed; a partition that
// is paused or waits for the right instant already is not counted. Errors: CodeUnavailable.
func (w *Waker) Heal(ctx context.Context) (healed int, err error) {
	for above := int64(0); ; {
		var ready []queue.Ready
		above, ready, err = w.healPage(ctx, above)
		switch {
		case postgres.IsNoRows(err):
			return healed, nil
		case err != nil:
			return healed, fmt.Errorf("healing partitions above %d: %w", above, postgres.Wrap(err))
		case ctx.Err() != nil:
			return healed, ctx.Err()
		}
		woken := map[int64]struct{}{}
		for _, r := range ready {
			woken[r.Partition] = struct{}{}
		}
		healed += len(woken)
	}
}

// healPage heals the partitions of one page and returns where the next page begins. pgx.ErrNoRows:
// there is no page.
func (w *Waker) healPage(ctx context.Context, above int64) (next int64, ready []queue.Ready, err error) {
	ctx, cancel := w.pool.Bounded(ctx)
	defer cancel()
	var partitions []int64
	if err := w.pool.QueryRow(ctx, sqlHeal, above, int64(healPage)).Scan(&next, &partitions); err != nil {
		return above, nil, err
	}
	if len(partitions) > 0 {
		ready = w.WakeOn(ctx, w.pool, partitions)
		w.Announce(ready)
	}
	return next, ready, nil
}

// WakeGroup wakes every partition of a group whose cursors were just created.
func (w *Waker) WakeGroup(ctx context.Context, group int64) error {
	for above := int64(0); ; {
		rows, _ := w.pool.Query(ctx, sqlGroupPartitions, group, above, int64(healPage)) // rows hold the error
		partitions, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		if err != nil {
			return fmt.Errorf("listing the partitions of group %d: %w", group, err)
		}
		if len(partitions) == 0 {
			return nil
		}
		w.Wake(ctx, partitions)
		above = partitions[len(partitions)-1]
	}
}
