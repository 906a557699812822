package inbox

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlReject   = sql.Query("engine/inbox/reject")
	sqlReadable = sql.Query("engine/inbox/readable")
)

// reject moves rows to belfry.inbox_rejected.
func (s *Sequencer) reject(ctx context.Context, rows []row) error {
	if len(rows) == 0 {
		return nil
	}
	ctx, cancel := s.SequencerPool.Bounded(ctx)
	defer cancel()
	ids, codes, reasons := make([]int64, len(rows)), make([]string, len(rows)), make([]string, len(rows))
	for i, one := range rows {
		ids[i], codes[i], reasons[i] = one.id, string(one.problem.Code), s.SequencerPool.Storable(ctx, one.problem.Message)
	}
	if _, err := s.conn.Exec(ctx, sqlReject, ids, codes, reasons); err != nil {
		return fmt.Errorf("rejecting %d rows: %w", len(rows), err)
	}
	for _, code := range codes {
		s.Metrics.rejected.WithLabelValues(code).Inc()
	}
	s.Log.Warn("messages written by SQL were rejected; they are in belfry.inbox_rejected",
		zap.Int("rows", len(rows)), zap.String("first_reason", reasons[0]))
	return nil
}

// notUTF8 reports whether the database could not convert a text to UTF-8.
func notUTF8(err error) bool {
	state := postgres.SQLState(err)
	return state == "22021" || state == "22P05"
}

// rejectUnreadable rejects the first rows with a text that is not UTF-8 and returns how many it
// rejected.
func (s *Sequencer) rejectUnreadable(ctx context.Context) (int, error) {
	found, err := s.findUnreadable(ctx)
	if err != nil {
		return 0, fmt.Errorf("searching for unreadable rows of the inbox: %w", err)
	}
	return len(found), s.reject(ctx, found)
}

// findUnreadable searches the first batchRows rows of the inbox. The scan has moved all batches
// before the unreadable row, so that row is among them. Large rows make a search time out, so
// findUnreadable then searches fewer rows per statement. It stops at the first rows it finds.
func (s *Sequencer) findUnreadable(ctx context.Context) (found []row, err error) {
	after, limit := int64(math.MinInt64), batchRows
	for left := batchRows; left > 0 && len(found) == 0; {
		checked, err := s.checkReadable(ctx, after, min(limit, left))
		switch timedOut := postgres.SQLState(err) == queryCanceled || errors.Is(err, context.DeadlineExceeded); {
		case timedOut && limit > 1 && ctx.Err() == nil:
			limit = max(limit/10, 1)
			continue
		case err != nil || len(checked) == 0:
			return nil, err
		}
		left -= len(checked)
		after = checked[len(checked)-1].id
		found = slices.DeleteFunc(checked, func(one row) bool { return one.problem == nil })
	}
	return found, nil
}

// checkReadable returns up to n rows with an id above after. Rows that are not UTF-8 have a problem.
func (s *Sequencer) checkReadable(ctx context.Context, after int64, n int) ([]row, error) {
	return postgres.Collect(ctx, s.SequencerPool, sqlReadable, func(line pgx.CollectableRow) (one row, err error) {
		var readable bool
		if err = line.Scan(&one.id, &readable); !readable {
			one.problem = queue.Invalidf("it cannot be read as UTF-8: client_encoding was not that of the text")
		}
		return one, err
	}, after, int64(n), s.cfg.MaxPayload)
}
