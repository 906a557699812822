package sweep

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/belfry-mq/belfry/pkg/events"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var sqlTrim = sql.Query("sweep/trim")

// trim takes steps in one round trip, each in a transaction of its own. It returns the steps that
// must continue.
func (s *Sweeper) trim(ctx context.Context, j job, now []step) (again []step, err error) {
	ctx, cancel := s.pool.Bounded(ctx)
	defer cancel()
	b := &pgx.Batch{}
	for _, one := range now {
		b.Queue("BEGIN")
		b.Queue(sqlTrim, one.queue, one.partition, j.evict, j.batch, one.above)
		b.Queue("COMMIT")
	}
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("trimming %d partitions: %w", len(now), err)
	}
	defer conn.Release() // closes the connection if it is still in a transaction
	results := conn.SendBatch(ctx, b)
	for _, one := range now {
		var done stepResult
		if done, err = readStep(results, one.partition); err != nil {
			break
		}
		s.record(done)
		if done.more {
			again = append(again, one)
		} else if done.continueAbove.Valid {
			one.above = done.continueAbove
			again = append(again, one)
		}
	}
	if closing := results.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return nil, fmt.Errorf("trimming %d partitions: %w", len(now), err)
	}
	return again, nil
}

// deletionRules are the rules in the order of stepResult.deleted, as the metrics name them.
var deletionRules = [...]string{"retention", "completed", "evicted"}

// stepResult is the result of one step.
type stepResult struct {
	// deleted counts the deleted messages for each of deletionRules.
	deleted [len(deletionRules)]int64
	// unread counts deleted messages that a group had not consumed. expired counts expired messages
	// that a cursor was moved past.
	expired, unread int64
	// skipped counts messages that stay and that a cursor was moved past.
	skipped int64
	// more is set if the batch size ended the step.
	more bool
	// continueAbove is the value of step.above for the next step. NULL: no kept messages are left.
	continueAbove pgtype.Int8
	ready         []queue.Ready
}

// record counts the result of a step and publishes what became poppable.
func (s *Sweeper) record(done stepResult) {
	for i, rule := range deletionRules {
		s.metrics.deleted.WithLabelValues(rule).Add(float64(done.deleted[i]))
	}
	s.metrics.unread.Add(float64(done.unread))
	s.metrics.expired.Add(float64(done.expired))
	s.metrics.skipped.Add(float64(done.skipped))
	s.events.Ready(done.ready, events.Here)
}

// readStep reads the results of one step: BEGIN, the step, COMMIT. The step has no row if the
// partition or the queue is deleted.
func readStep(results pgx.BatchResults, partition int64) (done stepResult, err error) {
	if _, err := results.Exec(); err != nil {
		return done, fmt.Errorf("beginning: %w", err)
	}
	var groups []int64
	var readyIn []pgtype.Float8
	err = results.QueryRow().Scan(&done.deleted[0], &done.deleted[1], &done.deleted[2], &done.expired, &done.unread, &done.skipped,
		&done.more, &done.continueAbove, &groups, &readyIn)
	if err != nil && !postgres.IsNoRows(err) {
		return done, fmt.Errorf("trimming partition %d: %w", partition, err)
	}
	for i, group := range groups {
		if readyIn[i].Valid {
			in := time.Duration(readyIn[i].Float64 * float64(time.Second))
			done.ready = append(done.ready, queue.Ready{Group: group, Partition: partition, In: in})
		}
	}
	if _, err := results.Exec(); err != nil {
		return done, fmt.Errorf("committing: %w", err)
	}
	return done, nil
}
