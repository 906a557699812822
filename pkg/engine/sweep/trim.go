package sweep

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

const (
	// maxSteps is the maximum number of steps in one round trip. Each step is a separate
	// transaction.
	maxSteps = 10
	// targetRoundTrip is the target duration of a round trip. The sweep adapts the number of steps
	// to it. So a request waits for locks of the sweep for about this time at most.
	targetRoundTrip = 20 * time.Millisecond
)

var (
	sqlQueues      = sql.Query("engine/sweep/queues")
	sqlFind        = sql.Query("engine/sweep/find")
	sqlDeadLetters = sql.Query("engine/sweep/dead_letters")
)

// trimJob returns j with needed and run set. run trims the logs of all queues that need the job.
func (s *Sweeper) trimJob(j job) job {
	var queues []sweptQueue
	j.needed = func(ctx context.Context) (bool, error) {
		var err error
		queues, err = postgres.Collect(ctx, s.pool, sqlQueues, pgx.RowToStructByPos[sweptQueue], j.evict,
			s.cfg.CompletedRetention > 0 || s.cfg.DeadLetterRetention > 0)
		if err != nil {
			err = fmt.Errorf("listing queues: %w", err)
		}
		return len(queues) > 0, err
	}
	j.run = func(ctx context.Context, l *jobLease) error {
		for _, q := range queues {
			if err := s.trimQueue(ctx, j, l, q); err != nil {
				return fmt.Errorf("sweeping queue %q: %w", q.Name, err)
			}
		}
		return nil
	}
	return j
}

// sweptQueue is a queue that needs a job.
type sweptQueue struct {
	ID   int64
	Name string
	// ByDefault is set for a queue without retentionEnabled, so that CompletedRetention and
	// DeadLetterRetention apply.
	ByDefault bool
}

// trimQueue trims the partitions of a queue page by page. In a ByDefault queue, it first deletes old dead letters, so
// that the same sweep finds their messages.
func (s *Sweeper) trimQueue(ctx context.Context, j job, l *jobLease, q sweptQueue) error {
	if q.ByDefault && s.cfg.DeadLetterRetention > 0 {
		err := s.inBatches(ctx, l, func(ctx context.Context) (bool, error) { return s.deleteDeadLetters(ctx, j, q) })
		if err != nil {
			return err
		}
	}
	if q.ByDefault && s.cfg.CompletedRetention == 0 {
		return nil
	}
	// A page begins with the last partition of the previous page, so that partition is searched
	// twice.
	for from := ""; ; {
		began := time.Now()
		found, err := s.find(ctx, j, q, from)
		if err != nil {
			return err
		}
		s.metrics.backlog.WithLabelValues(j.name).Set(float64(len(found.steps)))
		if err := s.trimAll(ctx, j, l, found.steps); err != nil {
			return err
		}
		if found.searched < pageSize || found.last == from {
			return nil
		}
		from = found.last
		if len(found.steps) == 0 {
			if err := s.pause(ctx, time.Since(began)); err != nil {
				return err
			}
		}
		if err := l.renew(ctx); err != nil {
			return err
		}
	}
}

// deleteDeadLetters deletes a batch of the old dead letters of a queue.
func (s *Sweeper) deleteDeadLetters(ctx context.Context, j job, q sweptQueue) (more bool, err error) {
	ctx, cancel := s.pool.Bounded(ctx)
	defer cancel()
	tag, err := s.pool.Exec(ctx, sqlDeadLetters, q.ID, s.cfg.DeadLetterRetention.Seconds(), j.batch)
	if err != nil {
		return false, fmt.Errorf("deleting old dead letters: %w", err)
	}
	return tag.RowsAffected() == j.batch, nil
}

// completedSeconds returns completedRetentionSeconds of queues without retentionEnabled.
func (s *Sweeper) completedSeconds() int64 { return int64(s.cfg.CompletedRetention.Seconds()) }

// step is one call of the SQL function that trims a partition.
type step struct {
	queue     sweptQueue
	partition int64
	// above is NULL for a step in the part of the log that is not swept yet. Otherwise the step
	// checks messages above this seq that an earlier sweep kept.
	above pgtype.Int8
}

// foundPage is the result of find.
type foundPage struct {
	// searched is the number of partitions of the page. last is the name of the last partition.
	searched int
	last     string
	steps    []step
}

// find searches a page of partitions whose names are start or later. It returns the steps to take.
func (s *Sweeper) find(ctx context.Context, j job, q sweptQueue, start string) (found foundPage, err error) {
	// kept are partitions in which an earlier sweep kept a message for a dead letter.
	var work, kept []int64
	err = s.pool.ScanRow(ctx, []any{&found.searched, &found.last, &work, &kept}, sqlFind, q.ID, start, int64(pageSize), j.evict, s.completedSeconds())
	if err != nil && !postgres.IsNoRows(err) {
		return found, fmt.Errorf("finding partitions from %q on: %w", start, err)
	}
	for _, partition := range work {
		found.steps = append(found.steps, step{queue: q, partition: partition})
	}
	for _, partition := range kept {
		found.steps = append(found.steps, step{queue: q, partition: partition, above: pgtype.Int8{Valid: true}})
	}
	return found, nil
}

// trimAll takes steps until none is left.
func (s *Sweeper) trimAll(ctx context.Context, j job, l *jobLease, todo []step) error {
	for n := 1; len(todo) > 0; {
		began := time.Now()
		now := todo[:min(n, len(todo))]
		again, err := s.trim(ctx, j, now)
		if err != nil && !postgres.ConnectionLost(err) {
			again, err = s.trimEach(ctx, j, now)
		}
		if err != nil {
			return err
		}
		// A partition with more messages to trim continues after the other partitions.
		todo = append(todo[len(now):], again...)
		s.metrics.backlog.WithLabelValues(j.name).Set(float64(len(todo)))
		if err := l.renew(ctx); err != nil {
			return err
		}
		worked := time.Since(began)
		n = nextBatchSize(n, worked)
		if err := s.pause(ctx, worked); err != nil {
			return err
		}
	}
	return nil
}

// trimEach takes steps one by one. If a step fails, trimEach logs the error and continues with the
// next partition. It returns an error only if the connection is lost.
func (s *Sweeper) trimEach(ctx context.Context, j job, now []step) (again []step, err error) {
	for i := range now {
		more, err := s.trim(ctx, j, now[i:i+1])
		if err != nil && postgres.ConnectionLost(err) {
			return nil, err
		}
		if err != nil {
			s.metrics.failures.WithLabelValues(j.name).Inc()
			s.log.Warn("a partition could not be swept; the sweep continued with the other partitions", zap.String("job", j.name),
				zap.Int64("partition_id", now[i].partition), zap.Error(err))
			continue
		}
		again = append(again, more...)
	}
	return again, nil
}

// nextBatchSize returns the number of steps for the next round trip, after n steps took the given
// time. So steps that delete many messages share a round trip with few other steps.
func nextBatchSize(n int, took time.Duration) int {
	switch {
	case took > targetRoundTrip:
		return max(1, n/2)
	case took < targetRoundTrip/2:
		return min(2*n, maxSteps)
	default:
		return n
	}
}

var sqlTrim = sql.Query("engine/sweep/trim")

// trim takes steps in one round trip, each in a separate transaction. It returns the steps that
// must continue.
func (s *Sweeper) trim(ctx context.Context, j job, now []step) (again []step, err error) {
	ctx, cancel := s.pool.Bounded(ctx)
	defer cancel()
	b := &pgx.Batch{}
	for _, next := range now {
		done := &stepResult{queue: next.queue.Name, partition: next.partition}
		queueTransaction(b, done.read, func() {
			s.record(done)
			if !done.more {
				next.above = done.continueAbove
			}
			if done.more || done.continueAbove.Valid {
				again = append(again, next)
			}
		}, sqlTrim, next.queue.ID, next.partition, j.evict, j.batch, next.above, s.completedSeconds())
	}
	if err := s.pool.SendBatch(ctx, b).Close(); err != nil {
		return nil, fmt.Errorf("trimming %d partitions: %w", len(now), err)
	}
	return again, nil
}

// queueTransaction adds a statement to b in a separate transaction. When the results of b are
// closed, read reads the row of the statement, and committed is called after its commit.
func queueTransaction(b *pgx.Batch, read func(pgx.Row) error, committed func(), statement string, args ...any) {
	b.Queue("BEGIN")
	b.Queue(statement, args...).QueryRow(read)
	b.Queue("COMMIT").Exec(func(pgconn.CommandTag) error {
		committed()
		return nil
	})
}

// deletionRules are the names of the rules in the metrics, in the order of stepResult.deleted.
var deletionRules = [...]string{"retention", "completed", "evicted"}

// stepResult is the result of one step.
type stepResult struct {
	queue     string
	partition int64
	// deleted counts the deleted messages for each of deletionRules.
	deleted [len(deletionRules)]int64
	// unread counts deleted messages that a group had not consumed. expired counts expired messages
	// that a cursor was moved past, once per cursor.
	expired, unread int64
	// skipped counts messages that were not deleted, and that a cursor was moved past.
	skipped int64
	// more is set if the batch size ended the step.
	more bool
	// continueAbove is the value of step.above for the next step. It is NULL if no kept messages
	// are left to check.
	continueAbove pgtype.Int8
	// readyIn has, for each of groups, the time until the partition becomes ready. nil means that
	// the partition does not become ready.
	groups  []int64
	readyIn []*postgres.Seconds
}

// record counts the result of a step and publishes the partition for the groups for which it became
// ready.
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
