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
	// maxPending is the maximum number of cursors that wait for a settle. Further cursors stay due.
	// The next pop then makes one extra probe and settles the cursor.
	maxPending = 10_000
	// settlePage is the maximum number of cursors that one transaction settles.
	settlePage = 200
	// SettleInterval is the minimum time between two pages. Each commit of a SQL consumer notifies
	// every instance, so pages could follow each other without a pause. A late settle only causes
	// extra probes.
	SettleInterval = 25 * time.Millisecond
)

// pendingSettle holds cursors that SQL consumers left due although they may be drained. A SQL
// consumer never leaves ready_at NULL, because no wake can follow its commit.
type pendingSettle struct {
	mu      sync.Mutex
	cursors map[queue.Target]struct{}
	// signal is set when cursors may wait. One signal may stand for many cursors.
	signal events.Signal
}

// SettleLater queues cursors that SQL consumers left due. RunSettling settles them. SettleLater
// does not block.
func (w *Waker) SettleLater(ready []queue.Ready) {
	p := &w.pending
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range ready {
		if r.Partition > 0 && len(p.cursors) < maxPending {
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

// RunSettling settles the queued cursors until ctx ends, at most one page per SettleInterval. The
// limit is needed because every role can announce cursors, even cursors that do not exist.
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

// settleMany settles the cursors that no session has locked, and wakes their partitions. The wake
// finds messages that were pushed meanwhile (I3).
func (w *Waker) settleMany(ctx context.Context, partitions, groups []int64) {
	ctx, cancel := w.pool.Bounded(ctx)
	defer cancel()
	var settled int64
	err := w.pool.QueryRow(ctx, sqlSettleDrained, partitions, groups).Scan(&settled)
	if err != nil {
		w.log.Warn("cursors that SQL consumers left due could not be settled; the next pop settles them",
			zap.Int("cursors", len(partitions)), zap.Error(err))
	}
	if err != nil || settled > 0 {
		w.Wake(ctx, partitions)
	}
}

// SettleNow settles the cursors of a group that no session has locked. It blocks for one or two
// statements, each bounded by the database timeout. It logs errors.
func (w *Waker) SettleNow(ctx context.Context, group int64, partitions []int64) {
	w.settleMany(ctx, partitions, slices.Repeat([]int64{group}, len(partitions)))
}

// SettleOne checks a cursor that was due although the claim saw no message. It waits for the lock of
// the cursor and then reads a newer snapshot. If a push has committed meanwhile, the next claim
// finds its message. If only deleted messages and dead letters are left, the cursor moves past them.
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
