package wake

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/engine/store/internal/pipeline"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlSettleLock    = sql.Query("engine/store/settle_lock")
	sqlSettle        = sql.Query("engine/store/settle")
	sqlSettleDrained = sql.Query("engine/store/settle_drained")
)

const (
	// maxPending is how many cursors wait to be settled. A cursor beyond it stays due: the next pop
	// makes one probe too many and settles the cursor.
	maxPending = 10_000
	// settlePage is how many cursors one transaction settles.
	settlePage = 200
	// SettleInterval is the least time between two pages. Every instance hears each commit of a SQL
	// consumer, and settling a cursor late costs only probes.
	SettleInterval = 25 * time.Millisecond
)

// pendingSettle holds cursors that SQL consumers left. They are due although possibly empty: a SQL
// consumer never leaves ready_at NULL, because no wake can follow its commit.
type pendingSettle struct {
	mu      sync.Mutex
	cursors map[queue.Target]struct{}
	// signal receives when there may be cursors; one signal stands for many.
	signal events.Signal
}

// SettleLater queues cursors that SQL consumers left; RunSettling settles them. It does not block.
func (w *Waker) SettleLater(ready []queue.Ready) {
	p := &w.pending
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range ready {
		if r.Partition != 0 && len(p.cursors) < maxPending {
			p.cursors[queue.Target{Group: r.Group, Partition: r.Partition}] = struct{}{}
		}
	}
	p.signal.Set()
}

// take removes up to n cursors.
func (p *pendingSettle) take(n int) (partitions, groups []int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for cursor := range p.cursors {
		if len(partitions) == n {
			break
		}
		partitions, groups = append(partitions, cursor.Partition), append(groups, cursor.Group)
		delete(p.cursors, cursor)
	}
	return partitions, groups
}

// RunSettling settles the queued cursors until ctx ends: the first page at once, and one page each
// SettleInterval after that. Every role can announce cursors, also ones that do not exist.
func (w *Waker) RunSettling(ctx context.Context) {
	interval := time.NewTimer(0)
	defer interval.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-interval.C:
		}
		select {
		case <-ctx.Done():
			return
		case <-w.pending.signal:
		}
		interval.Reset(SettleInterval)
		partitions, groups := w.pending.take(settlePage)
		if len(partitions) == settlePage {
			w.pending.signal.Set()
		}
		if len(partitions) > 0 {
			w.settleMany(ctx, partitions, groups)
		}
	}
}

// settleMany settles cursors that nobody holds and wakes their partitions. The wake finds what was
// pushed meanwhile (I3).
func (w *Waker) settleMany(ctx context.Context, partitions, groups []int64) {
	ctx, cancel := w.pool.Bounded(ctx)
	defer cancel()
	var settled int64
	err := w.pool.QueryRow(ctx, sqlSettleDrained, partitions, groups).Scan(&settled)
	if err != nil {
		w.log.Warn("cursors that SQL consumers left could not be settled; the next pop settles them",
			zap.Int("cursors", len(partitions)), zap.Error(err))
	}
	if err != nil || settled > 0 {
		w.Wake(ctx, partitions)
	}
}

// SettleNow settles those cursors of a group that nobody holds. It blocks for one or two statements,
// each bounded by the database timeout. A failure is logged.
func (w *Waker) SettleNow(ctx context.Context, group int64, partitions []int64) {
	w.settleMany(ctx, partitions, slices.Repeat([]int64{group}, len(partitions)))
}

// SettleOne looks again, under the lock and with a newer snapshot, at a cursor that was due although
// the claim saw no message. Either a push committed since, and the next claim sees it; or only holes
// and dead letters are left, and the cursor moves past them. It waits for the cursor.
func (w *Waker) SettleOne(ctx context.Context, partition, group int64) error {
	b := &pgx.Batch{}
	b.Queue("BEGIN")
	b.Queue(sqlSettleLock, partition, group)
	b.Queue(sqlSettle, partition, group)
	b.Queue("COMMIT")
	Queue(b, []int64{partition})
	var ready []queue.Ready
	err := pipeline.On(w.pool.Pool)(ctx, b, func(results pgx.BatchResults) error {
		if err := pipeline.Skip(results, "beginning", "locking", "moving", "committing"); err != nil {
			return fmt.Errorf("settling the cursor of group %d in partition %d: %w", group, partition, err)
		}
		ready = w.Read(results, 1)
		return nil
	})
	w.Announce(ready)
	return err
}
