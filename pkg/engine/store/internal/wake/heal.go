package wake

import (
	"context"
	"fmt"
	"time"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/sql"
)

var sqlHeal = sql.Query("engine/store/heal")

const (
	// maxHealPage and minHealPage bound the number of cursors that one statement of Heal examines.
	// After a failure, the next page has fewer cursors, because the statement may have timed out.
	maxHealPage = 5000
	minHealPage = 20
)

// Pass is the progress of a heal of all cursors. The zero Pass begins at the first cursor.
type Pass struct {
	// partition and group identify the last examined cursor.
	partition, group int64
	// page is the number of cursors of the next page. 0 means maxHealPage.
	page int
	// Began is the time at which the pass began.
	Began time.Time
	// Cursors is the number of examined cursors. Partitions is the number of woken partitions. A
	// partition does not count as woken if it is paused, or if its ready_at was already right.
	Cursors, Partitions int
}

// Heal wakes every partition that has a stranded cursor: ready_at is NULL, although messages are left.
// Only a wake that did not run after a commit leaves such a cursor. Heal works page by page, so no
// statement takes long, even with many partitions or groups. After an error, call Heal again with the
// same Pass to continue after the last page. Errors: CodeUnavailable.
func (w *Waker) Heal(ctx context.Context, pass *Pass) error {
	if pass.page == 0 {
		pass.page, pass.Began = maxHealPage, time.Now()
	}
	for {
		err := w.healPage(ctx, pass)
		switch {
		case postgres.IsNoRows(err):
			return nil
		case err != nil:
			pass.page = max(pass.page/4, minHealPage)
			return fmt.Errorf("healing cursors after partition %d, group %d: %w", pass.partition, pass.group, postgres.Wrap(err))
		case ctx.Err() != nil:
			return ctx.Err()
		}
		pass.page = min(2*pass.page, maxHealPage)
	}
}

// healPage heals one page and moves pass to its end. It returns pgx.ErrNoRows if no cursor is left.
func (w *Waker) healPage(ctx context.Context, pass *Pass) error {
	ctx, cancel := w.pool.Bounded(ctx)
	defer cancel()
	var partition, group int64
	var cursors int
	var partitions []int64
	err := w.pool.QueryRow(ctx, sqlHeal, pass.partition, pass.group, int64(pass.page)).Scan(&partition, &group, &cursors, &partitions)
	if err != nil {
		return err
	}
	if len(partitions) > 0 {
		ready, _, err := ReadReady(w.pool.Query(ctx, sqlWake, partitions))
		if err != nil {
			return err
		}
		w.Announce(ready)
		woken := map[int64]struct{}{}
		for _, r := range ready {
			woken[r.Partition] = struct{}{}
		}
		pass.Partitions += len(woken)
	}
	pass.partition, pass.group = partition, group
	pass.Cursors += cursors
	return nil
}
