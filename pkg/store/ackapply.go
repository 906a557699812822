package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// apply writes the changes and commits. A cursor that is left asleep needs a wake
// after that: those that are likely to be get it in the same round trip.
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
	var asleep []int64
	err := s.runBatch(ctx, conn, b, func(results pgx.BatchResults) error {
		var err error
		if ready, asleep, err = w.read(results); err != nil {
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
	asleep = slices.DeleteFunc(asleep, func(partition int64) bool { return slices.Contains(w.wake, partition) })
	if committed && len(asleep) > 0 {
		ready = append(ready, s.wakeOn(ctx, conn, asleep)...)
	}
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
	// wake are the partitions of the cursors that are likely to be left asleep.
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

// read reads what queue added, and returns what its commit makes ready, and the
// partitions of the cursors it leaves asleep; of those with redriven messages
// nothing is said.
func (w *ackWrites) read(results pgx.BatchResults) (ready []queue.Ready, asleep []int64, err error) {
	if len(w.partitions) > 0 {
		if ready, asleep, err = readMoved(results); err != nil {
			return nil, nil, fmt.Errorf("moving cursors: %w", err)
		}
	}
	redelivered, err := w.redeliveries.read(results)
	if err != nil {
		return nil, nil, err
	}
	if len(w.deadPartitions) > 0 {
		if err := skip(results, "dead-lettering"); err != nil {
			return nil, nil, err
		}
	}
	return append(ready, redelivered...), asleep, nil
}

// readMoved reads the result of ack_apply.sql.
func readMoved(results pgx.BatchResults) (ready []queue.Ready, asleep []int64, err error) {
	rows, err := results.Query()
	if err != nil {
		return nil, nil, err
	}
	var group, partition int64
	var seconds pgtype.Float8
	var at pgtype.Timestamptz
	var sleeps bool
	_, err = pgx.ForEachRow(rows, []any{&group, &partition, &seconds, &at, &sleeps}, func() error {
		switch {
		case sleeps:
			asleep = append(asleep, partition)
		case seconds.Valid:
			ready = append(ready, queue.Ready{Group: group, Partition: partition, In: inSeconds(seconds.Float64), At: at.Time})
		}
		return nil
	})
	return ready, asleep, err
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
		released := c.change.changed && c.change.release
		if c.redelivered.changed || released && (c.redrives || c.change.committed >= c.lastSeq) {
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
