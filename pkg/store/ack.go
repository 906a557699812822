package store

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Ack applies acknowledgments in one transaction and returns their results in
// the same order, after its COMMIT. One that cannot be applied says why in its
// result and does not touch the others.
//
// Errors: CodeUnavailable; then the acks may or may not have been applied, and
// sending them again is safe.
func (s *Store) Ack(ctx context.Context, items []queue.AckItem) ([]queue.AckResult, error) {
	ctx, cancel := s.pool.Bounded(ctx)
	defer cancel()
	if len(items) == 0 {
		return nil, nil
	}
	a := &ack{items: items, results: make([]queue.AckResult, len(items)), partition: make([]*queue.Partition, len(items))}
	if err := s.ackPartitions(ctx, a); err != nil {
		return nil, postgres.Wrap(err)
	}
	if len(a.found) == 0 {
		return a.results, nil
	}
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, postgres.Wrap(fmt.Errorf("acknowledging %d messages: %w", len(items), err))
	}
	defer conn.Release()
	if err := s.ack(ctx, conn, a); err != nil {
		rollback(ctx, conn)
		return nil, postgres.Wrap(fmt.Errorf("acknowledging %d messages: %w", len(items), err))
	}
	return a.results, nil
}

// ack is one call of Ack on its way.
type ack struct {
	items     []queue.AckItem
	results   []queue.AckResult
	partition []*queue.Partition
	// found are the items whose partition exists.
	found   []int
	cursors []*ackCursor
}

type cursorName struct {
	partition int64
	group     string
}

// ackCursor is a cursor the call touches.
type ackCursor struct {
	partition, group int64
	state            cursorState
	entries          []ackEntry
	change           ackChange
	verdicts         []ackVerdict
}

func (s *Store) ackPartitions(ctx context.Context, a *ack) error {
	ids := make([]queue.ID, len(a.items))
	var wanted []queue.ID
	seen := map[queue.ID]bool{}
	for i := range a.items {
		a.results[i].Error = errMessageNotFound
		id, err := queue.ParseID(a.items[i].PartitionID)
		if err != nil {
			continue
		}
		ids[i] = id
		if !seen[id] {
			seen[id] = true
			wanted = append(wanted, id)
		}
	}
	partitions, err := s.byIDs(ctx, wanted)
	if err != nil {
		return err
	}
	for i, id := range ids {
		if p := partitions[id]; p != nil {
			a.partition[i] = p
			a.results[i].Queue, a.results[i].Partition = p.Queue, p.Name
			a.found = append(a.found, i)
		}
	}
	return nil
}

func (s *Store) ack(ctx context.Context, conn *pgxpool.Conn, a *ack) error {
	var partitions []int64
	var groups []string
	places := map[cursorName]*ackCursor{}
	for _, i := range a.found {
		name := cursorName{a.partition[i].Key, a.items[i].Group}
		if _, ok := places[name]; !ok {
			places[name] = nil
			partitions, groups = append(partitions, name.partition), append(groups, name.group)
		}
	}
	of, transactions := make([]int64, len(a.found)), make([]string, len(a.found))
	for at, i := range a.found {
		of[at], transactions[at] = a.partition[i].Key, a.items[i].TransactionID
	}
	b := &pgx.Batch{}
	b.Queue("BEGIN")
	b.Queue(sqlAckLock, partitions, groups)
	b.Queue(sqlAckFind, of, transactions)
	seqs := make([]int64, len(a.found))
	err := runBatch(ctx, conn, b, func(results pgx.BatchResults) error {
		if err := skip(results, "beginning"); err != nil {
			return err
		}
		if err := a.readCursors(results, places); err != nil {
			return err
		}
		return readSeqs(results, seqs)
	})
	if err != nil {
		return err
	}
	a.decide(places, seqs)
	return s.applyAck(ctx, conn, a)
}

func (a *ack) readCursors(results pgx.BatchResults, places map[cursorName]*ackCursor) error {
	rows, err := results.Query()
	if err != nil {
		return fmt.Errorf("locking cursors: %w", err)
	}
	var c ackCursor
	var name string
	var lease pgtype.UUID
	_, err = pgx.ForEachRow(rows, []any{
		&c.partition, &c.group, &name, &c.state.committed, &c.state.skip, &c.state.failures, &c.state.attempts,
		&lease, &c.state.leaseLive, &c.state.leaseEnd, &c.state.retryLimit,
	}, func() error {
		one := c
		if lease.Valid {
			one.state.leaseID = queue.ID(lease.Bytes).String()
		}
		places[cursorName{one.partition, name}] = &one
		a.cursors = append(a.cursors, &one)
		c.state.skip = nil
		return nil
	})
	if err != nil {
		return fmt.Errorf("locking cursors: %w", err)
	}
	return nil
}

func readSeqs(results pgx.BatchResults, seqs []int64) error {
	rows, err := results.Query()
	if err != nil {
		return fmt.Errorf("finding messages: %w", err)
	}
	var place, seq int64
	_, err = pgx.ForEachRow(rows, []any{&place, &seq}, func() error {
		seqs[place-1] = seq
		return nil
	})
	if err != nil {
		return fmt.Errorf("finding messages: %w", err)
	}
	return nil
}

// decide sorts the items by cursor, lets the rules judge and fills the results.
func (a *ack) decide(places map[cursorName]*ackCursor, seqs []int64) {
	for at, i := range a.found {
		cursor := places[cursorName{a.partition[i].Key, a.items[i].Group}]
		switch {
		case seqs[at] == 0: // keeps "Message not found"
		case cursor == nil:
			a.results[i].Error = errNoCursor
		default:
			cursor.entries = append(cursor.entries, ackEntry{
				item: i, seq: seqs[at], lease: strings.ToLower(a.items[i].LeaseID), status: a.items[i].Status,
			})
		}
	}
	for _, cursor := range a.cursors {
		cursor.change, cursor.verdicts = decideAck(cursor.state, cursor.entries)
		for k, verdict := range cursor.verdicts {
			result := &a.results[cursor.entries[k].item]
			result.Success, result.Error, result.DeadLettered = verdict.success, verdict.err, verdict.dead
			result.Resolved = verdict.success
			result.LeaseReleased = !cursor.state.leaseLive || cursor.change.release
		}
	}
}

// applyAck writes the changes and commits; the wake follows in the same round
// trip.
func (s *Store) applyAck(ctx context.Context, conn *pgxpool.Conn, a *ack) error {
	w := a.writes()
	b := &pgx.Batch{}
	if len(w.partitions) > 0 {
		b.Queue(sqlAckApply, w.partitions, w.groups, w.committed, w.failures, w.attempts, w.release, w.done, w.skips)
	}
	if len(w.deadPartitions) > 0 {
		b.Queue(sqlDeadLetterInsert, w.deadPartitions, w.deadSeqs, w.deadGroups, w.deadAttempts, w.deadErrors)
	}
	b.Queue("COMMIT")
	if len(w.partitions) > 0 {
		b.Queue(sqlWake, w.partitions)
	}
	var ready []queue.Ready
	return runBatch(ctx, conn, b, func(results pgx.BatchResults) error {
		if len(w.partitions) > 0 {
			var err error
			if ready, err = readyResult(results, "moving cursors"); err != nil {
				return err
			}
		}
		if len(w.deadPartitions) > 0 {
			if err := skip(results, "dead-lettering"); err != nil {
				return err
			}
		}
		if err := skip(results, "committing"); err != nil {
			return err
		}
		s.announce(ready)
		if len(w.partitions) > 0 {
			s.announceWake(results, len(w.partitions))
		}
		return nil
	})
}

// ackWrites are the columns of ack_apply.sql and dead_letter_insert.sql.
type ackWrites struct {
	partitions, groups, committed, done []int64
	failures, attempts                  []int32
	release                             []bool
	skips                               []string

	deadPartitions, deadSeqs, deadGroups []int64
	deadAttempts                         []int32
	deadErrors                           []string
}

func (a *ack) writes() *ackWrites {
	w := &ackWrites{}
	for _, c := range a.cursors {
		if c.change.changed {
			w.partitions, w.groups = append(w.partitions, c.partition), append(w.groups, c.group)
			w.committed, w.done = append(w.committed, c.change.committed), append(w.done, c.change.done)
			w.failures, w.attempts = append(w.failures, c.change.failures), append(w.attempts, c.change.attempts)
			w.release = append(w.release, c.change.release)
			w.skips = append(w.skips, arrayText(c.change.skip))
		}
		for k, verdict := range c.verdicts {
			if !verdict.park {
				continue
			}
			reason := a.items[c.entries[k].item].Error
			if reason == "" {
				reason = defaultDeadReason
			}
			w.deadPartitions, w.deadSeqs = append(w.deadPartitions, c.partition), append(w.deadSeqs, c.entries[k].seq)
			w.deadGroups, w.deadAttempts = append(w.deadGroups, c.group), append(w.deadAttempts, verdict.failures)
			w.deadErrors = append(w.deadErrors, reason)
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
