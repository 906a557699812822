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
	// historyBatch is the maximum number of rows of the history that one transaction deletes.
	historyBatch = 5000
	// maxAttempts is the number of failed attempts that a run of the job history keeps.
	maxAttempts = 100_000
)

// HistoryStage combines rows of the history that are older than Age: rows that cover From minutes become rows
// that cover To minutes.
type HistoryStage struct {
	Age      time.Duration
	From, To int
}

// HistoryStages are in the order of Age. Each Age is slightly longer than the period that a dashboard shows
// with rows of From minutes.
var HistoryStages = []HistoryStage{
	{6*time.Hour + 30*time.Minute, 1, 15}, {26 * time.Hour, 15, 60}, {8 * 24 * time.Hour, 60, 360},
}

var (
	sqlHistoryRollup = sql.Query("engine/sweep/history_rollup")
	sqlHistoryTrim   = sql.Query("engine/sweep/history_trim")
	sqlAttemptsTrim  = sql.Query("engine/sweep/attempts_trim")
)

func (s *Sweeper) history() job {
	return job{name: jobHistory, interval: historyInterval, run: s.sweepHistory}
}

// sweepHistory deletes the rows that are older than HistoryRetention, and combines old rows by
// HistoryStages. It also deletes the oldest failed attempts above maxAttempts.
func (s *Sweeper) sweepHistory(ctx context.Context, l *jobLease) error {
	steps := []func(context.Context) (more bool, err error){
		func(ctx context.Context) (bool, error) { return s.trimAttempts(ctx, maxAttempts) },
	}
	if s.cfg.HistoryRetention > 0 {
		steps = append(steps, s.trimHistory)
	}
	for _, stage := range HistoryStages {
		steps = append(steps, func(ctx context.Context) (bool, error) { return s.rollUpHistory(ctx, stage) })
	}
	for _, step := range steps {
		if err := s.inBatches(ctx, l, step); err != nil {
			return err
		}
	}
	return nil
}

// rollUpHistory combines rows of one instance into one new row. more is false if no rows are left
// to combine.
func (s *Sweeper) rollUpHistory(ctx context.Context, stage HistoryStage) (more bool, err error) {
	err = s.pool.ScanRow(ctx, []any{nil, nil}, sqlHistoryRollup, stage.Age.Seconds(), int32(stage.From), int32(stage.To))
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

// trimAttempts deletes a batch of the oldest failed attempts above a number.
func (s *Sweeper) trimAttempts(ctx context.Context, keep int64) (more bool, err error) {
	ctx, cancel := s.pool.Bounded(ctx)
	defer cancel()
	tag, err := s.pool.Exec(ctx, sqlAttemptsTrim, keep, int64(historyBatch))
	if err != nil {
		return false, fmt.Errorf("deleting old failed attempts: %w", err)
	}
	return tag.RowsAffected() == historyBatch, nil
}
