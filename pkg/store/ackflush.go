package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// ackFlush is what a number of calls of Ack change in one transaction.
type ackFlush struct {
	calls   []*ack
	cursors []*ackCursor
	// places are the cursors by name; nil: there is none.
	places map[cursorName]*ackCursor
	// of and transactions are where to look for messages whose place nobody
	// remembers, and seqs where it is to be noted.
	of           []int64
	transactions []string
	seqs         []*int64
	partitions   []int64
	groups       []string
	// leases are those whose cursors are to be locked as well.
	leases []queue.ID
}

type cursorName struct {
	partition int64
	group     string
}

// ackCursor is a cursor the flush touches.
type ackCursor struct {
	partition, group int64
	state            cursorState
	change           ackChange
	dead             []deadLetter
}

// deadLetter is a message to park.
type deadLetter struct {
	seq      int64
	failures int32
	reason   string
}

// flushAcks applies the acknowledgments of calls in one transaction.
func (s *Store) flushAcks(ctx context.Context, calls []*ack) ([]error, error) {
	ctx, cancel := s.pool.Bounded(ctx)
	defer cancel()
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	f := newAckFlush(calls)
	err = f.run(ctx, s, conn)
	if err != nil {
		rollback(ctx, conn)
	}
	return nil, err
}

func newAckFlush(calls []*ack) *ackFlush {
	f := &ackFlush{calls: calls, places: map[cursorName]*ackCursor{}}
	for _, a := range calls {
		for _, i := range a.found {
			name := a.cursorOf(i)
			if _, ok := f.places[name]; !ok {
				f.places[name] = nil
				f.partitions, f.groups = append(f.partitions, name.partition), append(f.groups, name.group)
			}
			if a.seqs[i] == 0 {
				f.of, f.transactions = append(f.of, name.partition), append(f.transactions, a.items[i].TransactionID)
				f.seqs = append(f.seqs, &a.seqs[i])
			}
		}
	}
	return f
}

func (a *ack) cursorOf(item int) cursorName {
	return cursorName{a.partition[item].Key, a.items[item].Group}
}

func (f *ackFlush) run(ctx context.Context, s *Store, conn *pgxpool.Conn) error {
	b := &pgx.Batch{}
	b.Queue("BEGIN")
	f.queueLook(b)
	err := runBatch(ctx, conn, b, func(results pgx.BatchResults) error {
		if err := skip(results, "beginning"); err != nil {
			return err
		}
		return f.readLook(results)
	})
	if err != nil {
		return err
	}
	for _, a := range f.calls {
		f.decide(a)
	}
	return f.apply(ctx, s, conn)
}

// queueLook adds to b what locks the cursors and finds the messages.
func (f *ackFlush) queueLook(b *pgx.Batch) {
	if len(f.leases) == 0 {
		b.Queue(sqlAckLock, f.partitions, f.groups)
	} else {
		b.Queue(sqlTransactionLock, f.partitions, f.groups, rawIDs(f.leases))
	}
	if len(f.of) > 0 {
		b.Queue(sqlAckFind, f.of, f.transactions)
	}
}

// readLook reads what queueLook added.
func (f *ackFlush) readLook(results pgx.BatchResults) error {
	if err := f.readCursors(results); err != nil {
		return err
	}
	if len(f.of) == 0 {
		return nil
	}
	return f.readSeqs(results)
}

func (f *ackFlush) readCursors(results pgx.BatchResults) error {
	rows, err := results.Query()
	if err != nil {
		return fmt.Errorf("locking cursors: %w", err)
	}
	var c ackCursor
	var name string
	var lease pgtype.UUID
	var backoff int64
	_, err = pgx.ForEachRow(rows, []any{
		&c.partition, &c.group, &name, &c.state.committed, &c.state.skip, &c.state.failures, &c.state.attempts,
		&lease, &c.state.leaseLive, &c.state.leaseEnd, &c.state.retryLimit, &backoff,
	}, func() error {
		one := c
		one.state.retryBackoff, one.state.random = time.Duration(backoff)*time.Millisecond, rand.Float64()
		if lease.Valid {
			one.state.leaseID = queue.ID(lease.Bytes).String()
		}
		f.places[cursorName{one.partition, name}] = &one
		f.cursors = append(f.cursors, &one)
		c.state.skip = nil
		return nil
	})
	if err != nil {
		return fmt.Errorf("locking cursors: %w", err)
	}
	return nil
}

func (f *ackFlush) readSeqs(results pgx.BatchResults) error {
	rows, err := results.Query()
	if err != nil {
		return fmt.Errorf("finding messages: %w", err)
	}
	var place, seq int64
	_, err = pgx.ForEachRow(rows, []any{&place, &seq}, func() error {
		*f.seqs[place-1] = seq
		return nil
	})
	if err != nil {
		return fmt.Errorf("finding messages: %w", err)
	}
	return nil
}

// decide lets the rules judge one call, cursor by cursor, and fills its results.
// Calls are taken one after the other, as if each had its own transaction.
func (f *ackFlush) decide(a *ack) {
	entries := map[*ackCursor][]ackEntry{}
	var touched []*ackCursor
	for _, i := range a.found {
		cursor := f.places[a.cursorOf(i)]
		switch {
		case a.seqs[i] == 0:
			a.results[i].Error = errMessageNotFound
		case cursor == nil && a.items[i].LeaseID != "":
			// The group was deleted, and its leases with it.
			a.results[i].Error = errLease
		case cursor == nil:
			a.results[i].Error = errNoCursor
		default:
			if entries[cursor] == nil {
				touched = append(touched, cursor)
			}
			entries[cursor] = append(entries[cursor], ackEntry{
				item: i, seq: a.seqs[i], lease: strings.ToLower(a.items[i].LeaseID), status: a.items[i].Status,
			})
		}
	}
	for _, cursor := range touched {
		change, verdicts := decideAck(cursor.state, entries[cursor])
		for k, verdict := range verdicts {
			item := entries[cursor][k].item
			result := &a.results[item]
			result.Success, result.Error, result.DeadLettered = verdict.success, verdict.err, verdict.dead
			result.Resolved = verdict.success
			result.LeaseReleased = !cursor.state.leaseLive || change.release
			if verdict.park {
				reason := a.items[item].Error
				if reason == "" {
					reason = defaultDeadReason
				}
				cursor.dead = append(cursor.dead, deadLetter{entries[cursor][k].seq, verdict.failures, reason})
			}
		}
		cursor.follow(change)
	}
}

// follow makes change part of what becomes of the cursor, and what the next call
// sees.
func (c *ackCursor) follow(change ackChange) {
	if !change.changed {
		return
	}
	before := c.change
	c.change = change
	c.change.done += before.done
	c.change.release = c.change.release || before.release
	if before.changed && before.committed == change.committed && change.rest == 0 {
		c.change.rest = before.rest // what rests is still first
	}
	c.state.committed, c.state.skip = change.committed, change.skip
	c.state.failures, c.state.attempts = change.failures, change.attempts
	if change.release {
		c.state.leaseLive, c.state.leaseID = false, ""
	}
}

// apply writes the changes and commits; the wake follows in the same round trip.
func (f *ackFlush) apply(ctx context.Context, s *Store, conn *pgxpool.Conn) error {
	w := f.writes()
	b := &pgx.Batch{}
	w.queue(b)
	b.Queue("COMMIT")
	if len(w.partitions) > 0 {
		b.Queue(sqlWake, w.partitions)
	}
	var committed bool
	err := runBatch(ctx, conn, b, func(results pgx.BatchResults) error {
		ready, err := w.read(results)
		if err != nil {
			return err
		}
		if err := skip(results, "committing"); err != nil {
			return err
		}
		committed = true
		s.announce(ready)
		if len(w.partitions) > 0 {
			s.announceWake(results, len(w.partitions))
		}
		return nil
	})
	if committed {
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

	deadPartitions, deadSeqs, deadGroups []int64
	deadAttempts                         []int32
	deadErrors                           []string
}

// queue adds the writes to b.
func (w *ackWrites) queue(b *pgx.Batch) {
	if len(w.partitions) > 0 {
		b.Queue(sqlAckApply, w.partitions, w.groups, w.committed, w.failures, w.attempts, w.release, w.done, w.skips, w.rests)
	}
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
	if len(w.deadPartitions) > 0 {
		if err := skip(results, "dead-lettering"); err != nil {
			return nil, err
		}
	}
	return ready, nil
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
