package sweep

import (
	"context"
	"fmt"
	"time"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/sql"
)

const (
	// historyInterval is the time between two runs of the job history.
	historyInterval = time.Hour
	// historyBatch is how many rows of the history one transaction deletes at most.
	historyBatch = 5000
)

var (
	sqlHistoryRollup = sql.Query("sweep/history_rollup")
	sqlHistoryTrim   = sql.Query("sweep/history_trim")
)

func (s *Sweeper) history() job {
	return job{name: jobHistory, interval: historyInterval, run: s.sweepHistory}
}

// sweepHistory makes rows for hours of old rows for minutes, and deletes the rows that are older than
// HistoryRetention.
func (s *Sweeper) sweepHistory(ctx context.Context, l *jobLease) error {
	steps := []func(context.Context) (more bool, err error){s.rollUpHistory}
	if s.cfg.HistoryRetention > 0 {
		steps = append(steps, s.trimHistory)
	}
	for _, step := range steps {
		for more := true; more; {
			began := time.Now()
			var err error
			if more, err = step(ctx); err != nil {
				return err
			}
			if err := l.renew(ctx); err != nil {
				return err
			}
			if err := s.pause(ctx, time.Since(began)); err != nil {
				return err
			}
		}
	}
	return nil
}

// rollUpHistory replaces the rows of one instance and hour.
func (s *Sweeper) rollUpHistory(ctx context.Context) (more bool, err error) {
	err = s.pool.ScanRow(ctx, []any{nil, nil}, sqlHistoryRollup, s.cfg.HistoryMinutes.Seconds())
	if postgres.IsNoRows(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("rolling up the history: %w", err)
	}
	return true, nil
}

func (s *Sweeper) trimHistory(ctx context.Context) (more bool, err error) {
	ctx, cancel := s.pool.Bounded(ctx)
	defer cancel()
	var queues, instances int64
	err = s.pool.QueryRow(ctx, sqlHistoryTrim, s.cfg.HistoryRetention.Seconds(), int64(historyBatch)).Scan(&queues, &instances)
	if err != nil {
		return false, fmt.Errorf("deleting old rows of the history: %w", err)
	}
	return max(queues, instances) == historyBatch, nil
}
