package ack

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/pkg/store/internal/groupcommit"
	"github.com/belfry-mq/belfry/pkg/store/internal/pipeline"
	"github.com/belfry-mq/belfry/pkg/store/internal/wake"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlAckApply         = sql.Query("store/ack_apply")
	sqlDeadLetterInsert = sql.Query("store/dead_letter_insert")
)

// apply writes the changes and commits. A cursor that is left without ready_at needs a wake after
// the commit. Cursors that are likely to be left so get the wake in the same round trip.
func (f *Flush) apply(ctx context.Context, a *Acker, conn *pgxpool.Conn) error {
	w := f.Writes()
	b := &pgx.Batch{}
	w.Queue(b)
	b.Queue("COMMIT")
	if len(w.wake) > 0 {
		wake.Queue(b, w.wake)
	}
	var committed bool
	var ready []queue.Ready
	var notReady []int64
	err := pipeline.Send(ctx, conn, b, func(results pgx.BatchResults) error {
		var err error
		if ready, notReady, err = w.Read(results); err != nil {
			return err
		}
		if err := pipeline.Skip(results, "committing"); err != nil {
			return err
		}
		committed = true
		if len(w.wake) > 0 {
			ready = append(ready, a.Waker.Read(results, len(w.wake))...)
		}
		return nil
	})
	notReady = slices.DeleteFunc(notReady, func(partition int64) bool { return slices.Contains(w.wake, partition) })
	if committed && len(notReady) > 0 {
		ready = append(ready, a.Waker.WakeOn(ctx, conn, notReady)...)
	}
	if committed {
		a.Waker.Announce(ready)
		return nil // a later failure does not concern the callers
	}
	return groupcommit.CommitError(err)
}

// Writes are what a flush writes: the parameters of ack_apply.sql and dead_letter_insert.sql.
type Writes struct {
	partitions, groups, committed, done []int64
	failures, attempts                  []int32
	release                             []bool
	skips                               []string
	delays                              []float64
	// wake are the partitions of the cursors that are likely to be left without ready_at.
	wake         []int64
	redeliveries redeliveryWrites

	deadPartitions, deadSeqs, deadGroups []int64
	deadAttempts                         []int32
	deadErrors                           []string
}

// Queue adds the writes to b.
func (w *Writes) Queue(b *pgx.Batch) {
	if len(w.partitions) > 0 {
		b.Queue(sqlAckApply, w.partitions, w.groups, w.committed, w.failures, w.attempts, w.release, w.done, w.skips, w.delays)
	}
	w.redeliveries.queue(b)
	if len(w.deadPartitions) > 0 {
		b.Queue(sqlDeadLetterInsert, w.deadPartitions, w.deadSeqs, w.deadGroups, w.deadAttempts, w.deadErrors)
	}
}

// Read reads the results of Queue. It returns what the commit makes ready, and the partitions of the
// cursors without redriven messages that the commit leaves without ready_at.
func (w *Writes) Read(results pgx.BatchResults) (ready []queue.Ready, notReady []int64, err error) {
	if len(w.partitions) > 0 {
		if ready, notReady, err = readMoved(results); err != nil {
			return nil, nil, fmt.Errorf("moving cursors: %w", err)
		}
	}
	redelivered, err := w.redeliveries.read(results)
	if err != nil {
		return nil, nil, err
	}
	if len(w.deadPartitions) > 0 {
		if err := pipeline.Skip(results, "dead-lettering"); err != nil {
			return nil, nil, err
		}
	}
	return append(ready, redelivered...), notReady, nil
}

// readMoved reads the result of ack_apply.sql.
func readMoved(results pgx.BatchResults) (ready []queue.Ready, notReady []int64, err error) {
	rows, err := results.Query()
	if err != nil {
		return nil, nil, err
	}
	var group, partition int64
	var seconds pgtype.Float8
	var at pgtype.Timestamptz
	var withoutReady bool
	_, err = pgx.ForEachRow(rows, []any{&group, &partition, &seconds, &at, &withoutReady}, func() error {
		switch {
		case withoutReady:
			notReady = append(notReady, partition)
		case seconds.Valid:
			ready = append(ready, queue.Ready{Group: group, Partition: partition, In: wake.Seconds(seconds.Float64), At: at.Time})
		}
		return nil
	})
	return ready, notReady, err
}

// Writes returns what the judged calls change.
func (f *Flush) Writes() *Writes {
	w := &Writes{}
	for _, c := range f.cursors {
		if c.change.changed {
			w.partitions, w.groups = append(w.partitions, c.partition), append(w.groups, c.group)
			w.committed, w.done = append(w.committed, c.change.committed), append(w.done, c.change.done)
			w.failures, w.attempts = append(w.failures, c.change.failures), append(w.attempts, c.change.attempts)
			w.release = append(w.release, c.change.release)
			w.skips = append(w.skips, arrayText(c.change.skip))
			w.delays = append(w.delays, c.change.retryDelay.Seconds())
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
