package inbox

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// drain moves all rows that are visible.
func (s *Sequencer) drain(ctx context.Context) error {
	if now := time.Now(); s.doubt.Swap(false) || !now.Before(s.full) {
		s.seen, s.full = nothing, now.Add(s.cfg.FallbackInterval)
	}
	for ctx.Err() == nil {
		var moved bool
		from := s.seen
		snapshot, more, err := s.look(ctx, func(rows []row) error {
			err := s.move(ctx, rows)
			moved = moved || err == nil
			if len(rows) > 1 {
				s.busy = time.Now()
			}
			return err
		})
		switch {
		case postgres.SQLState(err) == postgres.InboxRowTaken:
			// Another session was at it. What is left is seen by another look.
			s.log.Info("rows of the inbox were taken by another session", zap.Error(err))
		case unreadable(err):
			// Then the look hands out nothing behind that row. The next one begins with the
			// first of all rows, as the search for it does.
			s.seen = nothing
			rejected, failed := s.rejectUnreadable(ctx)
			if failed != nil || rejected == 0 && from == nothing {
				return errors.Join(err, failed)
			}
		case err != nil && moved && !s.conn.Conn().IsClosed():
			// A look at large rows may run out of time; what was moved stays moved.
			s.seen = nothing
			s.log.Debug("a look into the inbox broke off", zap.Error(err))
		case err != nil:
			// Perhaps there was too much to go through: that of no snapshot is bounded.
			s.seen = nothing
			return err
		case !more:
			s.seen = snapshot
			return nil
		}
	}
	return nil
}

// move moves rows into their partitions, in order, and rejects those that cannot be.
func (s *Sequencer) move(ctx context.Context, rows []row) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	good := make([]row, 0, len(rows))
	var bad []row
	for _, one := range rows {
		if one.wrong == nil {
			good = append(good, one)
		} else {
			bad = append(bad, one)
		}
	}
	if len(good) > 0 {
		refused, err := s.sequence(ctx, good)
		if err != nil {
			return err
		}
		bad = append(bad, refused...)
	}
	return s.reject(ctx, bad)
}

// sequence moves rows that look right and returns those that are refused. When
// there is one among many that the database refuses, they are taken apart until
// it stands alone, and those before it have gone before those after it.
func (s *Sequencer) sequence(ctx context.Context, rows []row) (refused []row, err error) {
	ids, items := make([]int64, len(rows)), make([]queue.PushItem, len(rows))
	for i := range rows {
		ids[i], items[i] = rows[i].id, rows[i].item
	}
	results, err := s.appender.Sequence(ctx, s.conn, ids, items)
	switch {
	case err == nil:
		return s.sequenced(rows, results), nil
	case !culprit(err):
		return nil, err
	case len(rows) == 1:
		var coded *queue.Error
		if !errors.As(err, &coded) || coded.Code != queue.CodeInvalid {
			coded = queue.Invalidf("the database refused it: %v", err)
		}
		rows[0].wrong = coded
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

// culprit says whether an error is due to the values of a row: invalid ones, or more
// than Postgres can handle.
func culprit(err error) bool {
	return queue.CodeOf(err) == queue.CodeInvalid || strings.HasPrefix(postgres.SQLState(err), "54")
}

// sequenced counts, and returns the rows that were refused.
func (s *Sequencer) sequenced(rows []row, results []queue.SequenceResult) (refused []row) {
	stored, duplicates := 0, 0
	for i, result := range results {
		switch {
		case result.Refused != nil:
			rows[i].wrong = result.Refused
			refused = append(refused, rows[i])
		case result.Duplicate:
			duplicates++
		default:
			stored++
		}
	}
	s.metrics.transactions.Inc()
	s.metrics.sequenced.Add(float64(stored))
	s.metrics.duplicates.Add(float64(duplicates))
	return refused
}

// unreadable says whether a text could not be read as UTF-8.
func unreadable(err error) bool {
	state := postgres.SQLState(err)
	return state == "22021" || state == "22P05"
}

// rejectUnreadable rejects rows of which a look cannot read the text, those that it met
// first, and returns how many they are.
func (s *Sequencer) rejectUnreadable(ctx context.Context) (int, error) {
	found, err := s.unreadable(ctx)
	if err != nil {
		return 0, fmt.Errorf("looking for rows of the inbox that cannot be read: %w", err)
	}
	return len(found), s.reject(ctx, found)
}

// unreadable searches the rows with which the next look begins. What was before them a look has
// moved, chunk by chunk, so one that it broke off at is among the first chunkRows. Those
// behind it may be so large that there is no time for all of them.
func (s *Sequencer) unreadable(ctx context.Context) (found []row, err error) {
	after, step := int64(math.MinInt64), chunkRows
	for left := chunkRows; left > 0 && len(found) == 0; {
		searched, err := s.search(ctx, after, min(step, left))
		switch late := postgres.SQLState(err) == "57014" || errors.Is(err, context.DeadlineExceeded); {
		case late && step > 1 && ctx.Err() == nil:
			step = max(step/10, 1)
			continue
		case err != nil || len(searched) == 0:
			return nil, err
		}
		left -= len(searched)
		after = searched[len(searched)-1].id
		found = slices.DeleteFunc(searched, func(one row) bool { return one.wrong == nil })
	}
	return found, nil
}

// search looks whether n rows of the inbox, those behind the one with id after, can be read.
func (s *Sequencer) search(ctx context.Context, after int64, n int) ([]row, error) {
	ctx, cancel := s.own.Bounded(ctx)
	defer cancel()
	rows, err := s.own.Query(ctx, sqlReadable, after, int64(n), s.cfg.MaxPayload)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(line pgx.CollectableRow) (one row, err error) {
		var readable bool
		if err = line.Scan(&one.id, &readable); !readable {
			one.wrong = queue.Invalidf("it cannot be read as UTF-8: client_encoding was not that of the text")
		}
		return one, err
	})
}

// reject moves rows to the rejected ones.
func (s *Sequencer) reject(ctx context.Context, rows []row) error {
	if len(rows) == 0 {
		return nil
	}
	ctx, cancel := s.own.Bounded(ctx)
	defer cancel()
	ids, codes, reasons := make([]int64, len(rows)), make([]string, len(rows)), make([]string, len(rows))
	for i, one := range rows {
		ids[i], codes[i], reasons[i] = one.id, string(one.wrong.Code), one.wrong.Message
	}
	if _, err := s.conn.Exec(ctx, sqlReject, ids, codes, reasons); err != nil {
		return fmt.Errorf("rejecting %d rows: %w", len(rows), err)
	}
	for _, code := range codes {
		s.metrics.rejected.WithLabelValues(code).Inc()
	}
	s.log.Warn("messages written by SQL cannot be sequenced; they are in belfry.inbox_rejected",
		zap.Int("rows", len(rows)), zap.String("first", reasons[0]))
	return nil
}
