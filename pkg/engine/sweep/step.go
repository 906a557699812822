package sweep

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var sqlTrim = sql.Query("engine/sweep/trim")

// trim takes steps in one round trip, each in a transaction of its own. It returns the steps that
// must continue.
func (s *Sweeper) trim(ctx context.Context, j job, now []step) (again []step, err error) {
	ctx, cancel := s.pool.Bounded(ctx)
	defer cancel()
	b := &pgx.Batch{}
	for _, one := range now {
		done := &stepResult{queue: one.queue.Name, partition: one.partition}
		queueTransaction(b, done.read, func() {
			s.record(done)
			if !done.more {
				one.above = done.continueAbove
			}
			if done.more || done.continueAbove.Valid {
				again = append(again, one)
			}
		}, sqlTrim, one.queue.ID, one.partition, j.evict, j.batch, one.above, s.completedSeconds())
	}
	if err := s.pool.SendBatch(ctx, b).Close(); err != nil {
		return nil, fmt.Errorf("trimming %d partitions: %w", len(now), err)
	}
	return again, nil
}

// queueTransaction adds a statement to b in a transaction of its own. When the results of b are
// closed, read reads the row of the statement, and committed is called after its commit.
func queueTransaction(b *pgx.Batch, read func(pgx.Row) error, committed func(), statement string, args ...any) {
	b.Queue("BEGIN")
	b.Queue(statement, args...).QueryRow(read)
	b.Queue("COMMIT").Exec(func(pgconn.CommandTag) error {
		committed()
		return nil
	})
}

// deletionRules are the rules in the order of stepResult.deleted, as the metrics name them.
var deletionRules = [...]string{"retention", "completed", "evicted"}

// stepResult is the result of one step.
type stepResult struct {
	queue     string
	partition int64
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
	// The partition becomes poppable for each of groups in the time of readyIn. nil: it does not.
	groups  []int64
	readyIn []*postgres.Seconds
}

// record counts the result of a step and publishes what became poppable.
func (s *Sweeper) record(done *stepResult) {
	for i, rule := range deletionRules {
		s.metrics.deleted.WithLabelValues(rule).Add(float64(done.deleted[i]))
	}
	s.metrics.counts.Removed(done.queue, done.deleted[0], done.deleted[1], done.deleted[2])
	s.metrics.unread.Add(float64(done.unread))
	s.metrics.expired.Add(float64(done.expired))
	s.metrics.skipped.Add(float64(done.skipped))
	var ready []queue.Ready
	for i, group := range done.groups {
		if in := done.readyIn[i]; in != nil {
			ready = append(ready, queue.Ready{Group: group, Partition: done.partition, In: time.Duration(*in)})
		}
	}
	s.events.Ready(ready, events.Here)
}

// read reads the row of a step. The row is missing if the partition or the queue is deleted.
func (r *stepResult) read(row pgx.Row) error {
	err := row.Scan(&r.deleted[0], &r.deleted[1], &r.deleted[2], &r.expired, &r.unread, &r.skipped, &r.more, &r.continueAbove,
		&r.groups, &r.readyIn)
	if postgres.IsNoRows(err) {
		return nil
	}
	return err
}
