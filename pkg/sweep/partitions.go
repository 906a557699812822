package sweep

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/pkg/events"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlIdleFind   = sql.Query("sweep/idle_find")
	sqlIdleRemove = sql.Query("sweep/idle_remove")
)

// removeIdle removes partitions that are empty and got no push for PartitionCleanupDays, with their
// cursors. The next push creates the partition again. A group of the whole queue then reads it from
// its first message.
func (s *Sweeper) removeIdle(ctx context.Context, l *jobLease) error {
	for above := int64(0); ; {
		began := time.Now()
		ids, upto, err := s.findIdle(ctx, above)
		if err != nil {
			return err
		}
		if upto == 0 {
			return nil
		}
		s.metrics.backlog.WithLabelValues(l.job).Set(float64(len(ids)))
		removed := 0
		for len(ids) > 0 {
			now := ids[:min(maxSteps, len(ids))]
			n, err := s.remove(ctx, now)
			removed += n
			s.metrics.removed.Add(float64(n))
			ids = ids[len(now):]
			if err == nil {
				err = l.renew(ctx)
			}
			if err != nil || len(ids) == 0 {
				s.publishRemoved(removed)
			}
			if err != nil {
				return err
			}
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

// publishRemoved makes waiting requests look again. A request that waits for a removed partition must
// resolve its name again.
func (s *Sweeper) publishRemoved(removed int) {
	if removed > 0 {
		s.events.Resync("idle partitions were removed", events.Here)
	}
}

// findIdle searches a page of partitions above an id. upto is the last id of the page, 0 at the end.
func (s *Sweeper) findIdle(ctx context.Context, above int64) (ids []int64, upto int64, err error) {
	ctx, cancel := s.pool.Bounded(ctx)
	defer cancel()
	err = s.pool.QueryRow(ctx, sqlIdleFind, above, int64(pageSize), int32(s.cfg.PartitionCleanupDays)).Scan(&upto, &ids)
	if postgres.IsNoRows(err) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("finding idle partitions above %d: %w", above, err)
	}
	return ids, upto, nil
}

// remove removes partitions in one round trip, each in a transaction of its own. It returns how many
// were still idle and are removed.
func (s *Sweeper) remove(ctx context.Context, ids []int64) (removed int, err error) {
	ctx, cancel := s.pool.Bounded(ctx)
	defer cancel()
	b := &pgx.Batch{}
	for _, id := range ids {
		b.Queue("BEGIN")
		b.Queue(sqlIdleRemove, id, int32(s.cfg.PartitionCleanupDays))
		b.Queue("COMMIT")
	}
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return 0, fmt.Errorf("removing %d idle partitions: %w", len(ids), err)
	}
	defer conn.Release()
	results := conn.SendBatch(ctx, b)
	for range ids {
		var gone bool
		if _, err = results.Exec(); err != nil {
			break
		}
		if err = results.QueryRow().Scan(&gone); err != nil {
			break
		}
		if _, err = results.Exec(); err != nil {
			break
		}
		if gone {
			removed++
		}
	}
	if closing := results.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return removed, fmt.Errorf("removing %d idle partitions: %w", len(ids), err)
	}
	return removed, nil
}
