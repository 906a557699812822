package sweep

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlIdleFind   = sql.Query("engine/sweep/idle_find")
	sqlIdleRemove = sql.Query("engine/sweep/idle_remove")
)

// removeIdle removes empty partitions without a push for PartitionCleanupDays, with their cursors.
// The next push creates the partition again. A group that reads the whole queue then receives it
// from its first message.
func (s *Sweeper) removeIdle(ctx context.Context, l *jobLease) error {
	for above := int64(0); ; {
		began := time.Now()
		ids, upto, err := s.findIdle(ctx, above)
		if err != nil || upto == 0 {
			return err
		}
		s.metrics.backlog.WithLabelValues(l.job).Set(float64(len(ids)))
		removed, err := s.removeAll(ctx, l, ids)
		if removed > 0 {
			// A request that waits for a removed partition must look up the name of the partition
			// again.
			s.events.Resync("idle partitions were removed", events.Here)
		}
		if err != nil {
			return err
		}
		above = upto
		if err := l.renew(ctx); err != nil {
			return err
		}
		if err := s.pause(ctx, time.Since(began)); err != nil {
			return err
		}
	}
}

// findIdle returns the idle partitions of the page of partitions above an id. upto is the last id of
// the page, or 0 at the end.
func (s *Sweeper) findIdle(ctx context.Context, above int64) (ids []int64, upto int64, err error) {
	err = s.pool.ScanRow(ctx, []any{&upto, &ids}, sqlIdleFind, above, int64(pageSize), int32(s.cfg.PartitionCleanupDays))
	if err != nil && !postgres.IsNoRows(err) {
		return nil, 0, fmt.Errorf("finding idle partitions above %d: %w", above, err)
	}
	return ids, upto, nil
}

// removeAll removes those partitions of ids that are still idle. It returns the number of removed
// partitions.
func (s *Sweeper) removeAll(ctx context.Context, l *jobLease, ids []int64) (removed int, err error) {
	for now := range slices.Chunk(ids, maxSteps) {
		n, err := s.remove(ctx, now)
		removed += n
		s.metrics.removed.Add(float64(n))
		if err == nil {
			err = l.renew(ctx)
		}
		if err != nil {
			return removed, err
		}
	}
	return removed, nil
}

// remove does the work of removeAll in one round trip, with a transaction for each partition.
func (s *Sweeper) remove(ctx context.Context, ids []int64) (removed int, err error) {
	ctx, cancel := s.pool.Bounded(ctx)
	defer cancel()
	b := &pgx.Batch{}
	for _, id := range ids {
		var gone bool
		var queueName string
		read := func(row pgx.Row) error { return row.Scan(&gone, &queueName) }
		queueTransaction(b, read, func() {
			if gone {
				removed++
				s.metrics.counts.PartitionRemoved(queueName)
			}
		}, sqlIdleRemove, id, int32(s.cfg.PartitionCleanupDays))
	}
	if err := s.pool.SendBatch(ctx, b).Close(); err != nil {
		return removed, fmt.Errorf("removing %d idle partitions: %w", len(ids), err)
	}
	return removed, nil
}
