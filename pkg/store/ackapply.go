package store

import (
	"context"
	"errors"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// apply writes the changes and commits; the wake follows in the same round trip.
func (f *ackFlush) apply(ctx context.Context, s *Store, conn *pgxpool.Conn) error {
	w := f.writes()
	b := &pgx.Batch{}
	w.queue(b)
	b.Queue("COMMIT")
	if len(w.wake) > 0 {
		b.Queue(sqlWake, w.wake)
	}
	var committed bool
	var ready []queue.Ready
	err := s.runBatch(ctx, conn, b, func(results pgx.BatchResults) error {
		var err error
		if ready, err = w.read(results); err != nil {
			return err
		}
		if err := skip(results, "committing"); err != nil {
			return err
		}
		committed = true
		if len(w.wake) > 0 {
			ready = append(ready, s.readWake(results, len(w.wake))...)
		}
		return nil
	})
	if committed {
		s.announce(ready)
		return nil // whatever failed after that is not the callers'
	}
	return commitError(err)
}

// commitError judges the error of a COMMIT of acks. What the database refused has
// not happened. Else nobody knows: applied twice, an acknowledgment would find
// its lease gone and say so.
func commitError(err error) error {
	var refused *pgconn.PgError
	if err != nil && !errors.As(err, &refused) {
		return unknownError{err}
	}
	return err
}

// ackWrites are the columns of ack_apply.sql and dead_letter_insert.sql.
type ackWrites struct {
	partitions, groups, committed, done []int64
	failures, attempts                  []int32
	release                             []bool
	skips                               []string
	rests                               []float64
	// wake are the partitions of every cursor that changes.
	wake         []int64
	redeliveries redeliveryWrites

	deadPartitions, deadSeqs, deadGroups []int64
	deadAttempts                         []int32
	deadErrors                           []string
}

// queue adds the writes to b.
func (w *ackWrites) queue(b *pgx.Batch) {
	if len(w.partitions) > 0 {
		b.Queue(sqlAckApply, w.partitions, w.groups, w.committed, w.failures, w.attempts, w.release, w.done, w.skips, w.rests)
	}
	w.redeliveries.queue(b)
	if len(w.deadPartitions) > 0 {
		b.Queue(sqlDeadLetterInsert, w.deadPartitions, w.deadSeqs, w.deadGroups, w.deadAttempts, w.deadErrors)
	}
}

// read reads what queue added, and returns what its commit makes ready.
func (w *ackWrites) read(results pgx.BatchResults) (ready []queue.Ready, err error) {
	if len(w.partitions) > 0 {
		if ready, err = readyResult(results, "moving cursors"); err != nil {
			return nil, err
		}
	}
	redelivered, err := w.redeliveries.read(results)
	if err != nil {
		return nil, err
	}
	if len(w.deadPartitions) > 0 {
		if err := skip(results, "dead-lettering"); err != nil {
			return nil, err
		}
	}
	return append(ready, redelivered...), nil
}

func (f *ackFlush) writes() *ackWrites {
	w := &ackWrites{}
	for _, c := range f.cursors {
		if c.change.changed {
			w.partitions, w.groups = append(w.partitions, c.partition), append(w.groups, c.group)
			w.committed, w.done = append(w.committed, c.change.committed), append(w.done, c.change.done)
			w.failures, w.attempts = append(w.failures, c.change.failures), append(w.attempts, c.change.attempts)
			w.release = append(w.release, c.change.release)
			w.skips = append(w.skips, arrayText(c.change.skip))
			w.rests = append(w.rests, c.change.rest.Seconds())
		}
		w.redeliveries.add(c)
		if c.change.changed || c.redelivered.changed {
			w.wake = append(w.wake, c.partition)
		}
		for _, d := range c.dead {
			w.deadPartitions, w.deadSeqs = append(w.deadPartitions, c.partition), append(w.deadSeqs, d.seq)
			w.deadGroups, w.deadAttempts = append(w.deadGroups, c.group), append(w.deadAttempts, d.failures)
			w.deadErrors = append(w.deadErrors, d.reason)
		}
	}
	return w
}

// arrayText writes numbers as a Postgres array: {3,5}.
func arrayText(numbers []int64) string {
	b := []byte{'{'}
	for i, n := range numbers {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, n, 10)
	}
	return string(append(b, '}'))
}
