package sweep

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/events"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

// round is how many steps share a round trip; each is a transaction of its own.
const round = 10

var (
	sqlQueues = sql.Query("sweep/queues")
	sqlFind   = sql.Query("sweep/find")
	sqlTrim   = sql.Query("sweep/trim")
)

// trims makes j a job that trims the logs of the queues that want it.
func (s *Sweeper) trims(j job) job {
	var queues []int64
	j.wanted = func(ctx context.Context) (bool, error) {
		var err error
		queues, err = s.queues(ctx, j.evict)
		return len(queues) > 0, err
	}
	j.run = func(ctx context.Context, h *hold) error {
		for _, id := range queues {
			if err := s.trimQueue(ctx, j, h, id); err != nil {
				return fmt.Errorf("sweeping queue %d: %w", id, err)
			}
		}
		return nil
	}
	return j
}

func (s *Sweeper) queues(ctx context.Context, evict bool) ([]int64, error) {
	ctx, cancel := s.pool.Bounded(ctx)
	defer cancel()
	rows, err := s.pool.Query(ctx, sqlQueues, evict)
	if err != nil {
		return nil, fmt.Errorf("listing queues: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return nil, fmt.Errorf("listing queues: %w", err)
	}
	return ids, nil
}

// trimQueue goes through the partitions of a queue page by page.
func (s *Sweeper) trimQueue(ctx context.Context, j job, h *hold, id int64) error {
	// A page begins with the last partition of the one before: it is looked at
	// twice, and no name is too short to come after.
	for from := ""; ; {
		began := time.Now()
		looked, last, work, kept, err := s.find(ctx, j, id, from)
		if err != nil {
			return err
		}
		todo := steps(id, work, kept)
		s.metrics.backlog.WithLabelValues(j.name).Set(float64(len(todo)))
		if err := s.trimAll(ctx, j, h, todo); err != nil {
			return err
		}
		if looked < page || last == from {
			return nil
		}
		from = last
		if len(todo) == 0 {
			if err := s.rest(ctx, time.Since(began)); err != nil {
				return err
			}
		}
		if err := h.on(ctx); err != nil {
			return err
		}
	}
}

func (s *Sweeper) find(ctx context.Context, j job, id int64, from string) (looked int, last string, work, kept []int64, err error) {
	ctx, cancel := s.pool.Bounded(ctx)
	defer cancel()
	err = s.pool.QueryRow(ctx, sqlFind, id, from, int64(page), j.evict).Scan(&looked, &last, &work, &kept)
	switch {
	case postgres.IsNoRows(err):
		return 0, "", nil, nil, nil
	case err != nil:
		return 0, "", nil, nil, fmt.Errorf("finding partitions from %q on: %w", from, err)
	}
	return looked, last, work, kept, nil
}

// step is one call of the function belfry.trim.
type step struct {
	queue, partition int64
	above            pgtype.Int8
}

func steps(id int64, work, kept []int64) []step {
	todo := make([]step, 0, len(work)+len(kept))
	for _, partition := range work {
		todo = append(todo, step{queue: id, partition: partition})
	}
	for _, partition := range kept {
		todo = append(todo, step{queue: id, partition: partition, above: pgtype.Int8{Valid: true}})
	}
	return todo
}

// trimAll takes steps until none is left. A partition that fails alone is left
// out, so that it does not keep the others from being swept.
func (s *Sweeper) trimAll(ctx context.Context, j job, h *hold, todo []step) error {
	for n := 1; len(todo) > 0; {
		began := time.Now()
		now := todo[:min(n, len(todo))]
		again, err := s.trim(ctx, j, now)
		if err != nil && postgres.ConnectionLost(err) {
			return err
		}
		if err != nil {
			again = nil
			for i := range now {
				more, err := s.trim(ctx, j, now[i:i+1])
				if err != nil && postgres.ConnectionLost(err) {
					return err
				}
				if err != nil {
					s.metrics.failures.WithLabelValues(j.name).Inc()
					s.log.Warn("a partition cannot be swept; the others are", zap.String("job", j.name),
						zap.Int64("partition_key", now[i].partition), zap.Error(err))
					continue
				}
				again = append(again, more...)
			}
		}
		// A long log comes again after the others.
		todo = append(todo[len(now):], again...)
		s.metrics.backlog.WithLabelValues(j.name).Set(float64(len(todo)))
		if err := h.on(ctx); err != nil {
			return err
		}
		worked := time.Since(began)
		n = nextRound(n, worked)
		if err := s.rest(ctx, worked); err != nil {
			return err
		}
	}
	return nil
}

// nextRound says how many steps the next round trip takes, when one of n took so
// long: few of a thousand messages, many of one. Requests meet the sweep for that
// long at most.
func nextRound(n int, worked time.Duration) int {
	const enough = 20 * time.Millisecond
	switch {
	case worked > enough:
		return max(1, n/2)
	case worked < enough/2:
		return min(2*n, round)
	default:
		return n
	}
}

// trim takes steps in one round trip and returns those that are not finished.
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
	defer conn.Release() // drops a connection that is left in a transaction
	results := conn.SendBatch(ctx, b)
	for _, one := range now {
		var t trimmed
		if t, err = readTrimmed(results, one.partition); err != nil {
			break
		}
		s.tell(t)
		if t.more {
			again = append(again, one)
		} else if t.seen.Valid {
			one.above = t.seen
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

// tell counts what a step has done, and announces it.
func (s *Sweeper) tell(t trimmed) {
	for i, reason := range []string{"retention", "completed", "evicted"} {
		s.metrics.deleted.WithLabelValues(reason).Add(float64(t.deleted[i]))
	}
	s.metrics.unread.Add(float64(t.unread))
	s.metrics.expired.Add(float64(t.expired))
	s.metrics.skipped.Add(float64(t.skipped))
	if len(t.ready) > 0 {
		s.events.Ready(t.ready, events.Here)
	}
}

// trimmed is what one step did.
type trimmed struct {
	// deleted are the messages by rule: retention, completed, evicted.
	deleted         [3]int64
	expired, unread int64
	// skipped were not deleted, and groups were moved past them.
	skipped int64
	more    bool
	seen    pgtype.Int8
	ready   []queue.Ready
}

// readTrimmed reads the results of one step: BEGIN, the step, COMMIT. A partition
// or queue that is gone has no row.
func readTrimmed(results pgx.BatchResults, partition int64) (t trimmed, err error) {
	if _, err := results.Exec(); err != nil {
		return t, fmt.Errorf("beginning: %w", err)
	}
	var groups []int64
	var readyIn []pgtype.Float8
	err = results.QueryRow().Scan(&t.deleted[0], &t.deleted[1], &t.deleted[2], &t.expired, &t.unread, &t.skipped, &t.more, &t.seen, &groups, &readyIn)
	if err != nil && !postgres.IsNoRows(err) {
		return t, fmt.Errorf("trimming partition %d: %w", partition, err)
	}
	for i, group := range groups {
		if readyIn[i].Valid {
			in := time.Duration(readyIn[i].Float64 * float64(time.Second))
			t.ready = append(t.ready, queue.Ready{Group: group, Partition: partition, In: in})
		}
	}
	if _, err := results.Exec(); err != nil {
		return t, fmt.Errorf("committing: %w", err)
	}
	return t, nil
}
