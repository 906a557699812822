package store

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// ackFlush is what a number of calls of Ack change in one transaction.
type ackFlush struct {
	calls   []*ack
	cursors []*ackCursor
	// places are the cursors by name; nil: there is none.
	places map[cursorName]*ackCursor
	// redriven: one of them has redriven messages.
	redriven bool
	// of and transactions are where to look for messages whose place nobody
	// remembers, and seqs where it is to be noted.
	of           []int64
	transactions []string
	seqs         []*int64
	partitions   []int64
	groups       []string
	// leases are those whose cursors are to be locked as well.
	leases []queue.ID
	// patience is how long it waits for one lock.
	patience time.Duration
	// begun: its transaction is open already.
	begun bool
}

type cursorName struct {
	partition int64
	group     string
}

// ackCursor is a cursor the flush touches.
type ackCursor struct {
	partition, group int64
	// uid is what its partition is called on the wire.
	uid queue.ID
	// lastSeq is how far the partition's messages went when it was locked, and redrives
	// whether there were redriven ones as well.
	lastSeq  int64
	redrives bool
	state    cursorState
	change   ackChange
	dead     []deadLetter
	// redriven are the redriven messages that are acknowledged, by seq.
	redriven map[int64]*redriven
	// redelivered is what becomes of the cursor by them.
	redelivered redeliveryChange
}

// deadLetter is a message to park.
type deadLetter struct {
	seq      int64
	failures int32
	reason   string
}

// flushAcks applies the acknowledgments of calls in one transaction, but for those
// that touch a cursor which somebody holds: their error is a heldError, and they
// have to wait by themselves.
func (s *Store) flushAcks(ctx context.Context, calls []*ack) ([]error, error) {
	held, free := s.heldCursors.among(calls)
	if len(free) > 0 {
		found, err := s.applyTogether(ctx, free)
		if err != nil {
			return nil, err
		}
		maps.Copy(held, found)
	}
	if len(held) == 0 {
		return nil, nil
	}
	each := make([]error, len(calls))
	for i, a := range calls {
		if h := held[a]; h != nil {
			each[i] = h
		}
	}
	return each, nil
}

// applyTogether is flushAcks for calls of which none is known to be held.
func (s *Store) applyTogether(ctx context.Context, calls []*ack) (map[*ack]*heldError, error) {
	ctx, cancel := s.pool.Bounded(ctx)
	defer cancel()
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	began := time.Now()
	f := newAckFlush(calls)
	f.patience = lockPatience
	err = f.run(ctx, s, conn)
	if err != nil {
		rollback(ctx, conn)
	}
	if postgres.SQLState(err) != postgres.LockTimeout {
		return nil, err
	}
	return s.applyFree(ctx, conn, f, freely{patience: ackPatience, since: began, waited: err})
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

// names are the cursors it touches.
func (f *ackFlush) names() []cursorName { return slices.Collect(maps.Keys(f.places)) }

// cursor returns the cursor of an item, or nil when there is none: also where another
// partition has the id that its own one had in another life of the database.
func (f *ackFlush) cursor(a *ack, item int) *ackCursor {
	c := f.places[a.cursorOf(item)]
	if c == nil || c.uid != a.partition[item].ID {
		return nil
	}
	return c
}

func (a *ack) cursorOf(item int) cursorName {
	return cursorName{a.partition[item].Key, a.items[item].Group}
}

func (f *ackFlush) run(ctx context.Context, s *Store, conn *pgxpool.Conn) error {
	b := &pgx.Batch{}
	if !f.begun {
		b.Queue("BEGIN")
	}
	f.queueLook(b)
	err := s.runBatch(ctx, conn, b, func(results pgx.BatchResults) error {
		if !f.begun {
			if err := skip(results, "beginning"); err != nil {
				return err
			}
		}
		return f.readLook(results)
	})
	if err != nil {
		return err
	}
	if err := f.findRedriven(ctx, conn); err != nil {
		return err
	}
	for _, a := range f.calls {
		f.decide(a)
	}
	return f.apply(ctx, s, conn)
}

// queueLook adds to b what locks the cursors and finds the messages.
func (f *ackFlush) queueLook(b *pgx.Batch) {
	queuePatience(b, f.patience)
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
	if err := skip(results, "setting the patience"); err != nil {
		return err
	}
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
	var redriven pgtype.Bool
	_, err = pgx.ForEachRow(rows, []any{
		&c.partition, &c.group, &name, &c.state.committed, &c.state.skip, &c.state.failures, &c.state.attempts,
		&lease, &c.state.leaseLive, &c.state.leaseEnd, &c.state.retryLimit, &backoff, &redriven, &c.lastSeq, (*[16]byte)(&c.uid),
	}, func() error {
		one := c
		one.state.retryBackoff, one.state.random = time.Duration(backoff)*time.Millisecond, rand.Float64()
		one.redrives = redriven.Bool
		f.redriven = f.redriven || one.redrives
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
		cursor := f.cursor(a, i)
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
		change, verdicts := cursor.judge(entries[cursor])
		for k, verdict := range verdicts {
			item := entries[cursor][k].item
			result := &a.results[item]
			result.Success, result.Error, result.DeadLettered = verdict.success, verdict.err, verdict.dead
			result.Resolved = verdict.success
			result.LeaseReleased = !cursor.state.leaseLive || change.release || cursor.redelivered.release
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
	if c.redelivered.release {
		c.state.leaseLive, c.state.leaseID = false, ""
	}
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
