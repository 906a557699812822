package inbox

import (
	"context"
	"errors"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// sequenceAll moves all visible rows.
func (s *Sequencer) sequenceAll(ctx context.Context) error {
	if now := time.Now(); s.fullScan.Swap(false) || !now.Before(s.fullScanAt) {
		s.scanned, s.fullScanAt = emptySnapshot, now.Add(s.cfg.FallbackInterval)
	}
	for ctx.Err() == nil {
		var moved bool
		from := s.scanned
		snapshot, more, err := s.scan(ctx, func(batch []row) error {
			err := s.move(ctx, batch)
			moved = moved || err == nil
			if len(batch) > 1 {
				s.lastBatch = time.Now()
			}
			return err
		})
		switch {
		case postgres.SQLState(err) == postgres.InboxRowTaken:
			// The next scan from the same snapshot finds the remaining rows.
			s.Log.Info("another session moved rows of the inbox", zap.Error(err))
		case notUTF8(err):
			// The scan returns no row after the unreadable row. The search for unreadable rows
			// begins with the first row, so the next scan does too.
			s.scanned = emptySnapshot
			rejected, failed := s.rejectUnreadable(ctx)
			if failed != nil || rejected == 0 && from == emptySnapshot {
				return errors.Join(err, failed)
			}
		case err != nil && moved && !s.conn.Conn().IsClosed():
			// A scan of large rows may time out. The moved rows stay moved.
			s.scanned = emptySnapshot
			s.Log.Debug("a scan of the inbox was interrupted", zap.Error(err))
		case err != nil:
			// The scan may have timed out because of the backlog. The next scan is a full scan,
			// which reads a bounded number of rows.
			s.scanned = emptySnapshot
			return err
		case !more:
			s.scanned = snapshot
			return nil
		}
	}
	return nil
}

// move moves rows into their partitions, in order, and rejects the rows that have a problem.
func (s *Sequencer) move(ctx context.Context, rows []row) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	valid := make([]row, 0, len(rows))
	var rejected []row
	for _, r := range rows {
		if r.problem == nil {
			valid = append(valid, r)
		} else {
			rejected = append(rejected, r)
		}
	}
	if len(valid) > 0 {
		refused, err := s.sequence(ctx, valid)
		if err != nil {
			return err
		}
		rejected = append(rejected, refused...)
	}
	return s.reject(ctx, rejected)
}

// sequence moves rows and returns the refused rows. If the database refuses the batch because of
// one row, sequence halves the batch until it has found the row. It moves the first half before the
// second half.
func (s *Sequencer) sequence(ctx context.Context, rows []row) (refused []row, err error) {
	ids, items := make([]int64, len(rows)), make([]queue.PushItem, len(rows))
	for i := range rows {
		ids[i], items[i] = rows[i].id, rows[i].item
	}
	results, err := s.Appender.Sequence(ctx, s.conn, ids, items)
	switch {
	case err == nil:
		return s.countResults(rows, results), nil
	case !causedByRow(err):
		return nil, err
	case len(rows) == 1:
		var coded *queue.Error
		if !errors.As(err, &coded) || coded.Code != queue.CodeInvalid {
			coded = queue.Invalidf("the database refused the row: %v", err)
		}
		rows[0].problem = coded
		return rows, nil
	}
	for _, half := range [][]row{rows[:len(rows)/2], rows[len(rows)/2:]} {
		more, err := s.sequence(ctx, half)
		if err != nil {
			return nil, err
		}
		refused = append(refused, more...)
	}
	return refused, nil
}

// causedByRow reports whether a row caused an error: its values are invalid, or they exceed a limit
// of Postgres (class 54).
func causedByRow(err error) bool {
	return queue.CodeOf(err) == queue.CodeInvalid || strings.HasPrefix(postgres.SQLState(err), "54")
}

// countResults counts the results and returns the rows that were refused.
func (s *Sequencer) countResults(rows []row, results []queue.SequenceResult) (refused []row) {
	stored, duplicates := 0, 0
	for i, result := range results {
		switch {
		case result.Refused != nil:
			rows[i].problem = result.Refused
			refused = append(refused, rows[i])
		case result.Duplicate:
			duplicates++
		default:
			stored++
		}
	}
	s.Metrics.transactions.Inc()
	s.Metrics.sequenced.Add(float64(stored))
	s.Metrics.duplicates.Add(float64(duplicates))
	return refused
}
