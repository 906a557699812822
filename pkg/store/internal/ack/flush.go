package ack

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

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/pkg/store/internal/contention"
	"github.com/belfry-mq/belfry/pkg/store/internal/names"
	"github.com/belfry-mq/belfry/pkg/store/internal/pipeline"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlAckLock         = sql.Query("store/ack_lock")
	sqlAckFind         = sql.Query("store/ack_find")
	sqlTransactionLock = sql.Query("store/transaction_lock")
)

// Flush is what a number of calls change in one transaction.
type Flush struct {
	// Leases are the leases whose cursors are locked as well.
	Leases []queue.ID
	// Patience bounds the wait for one lock.
	Patience time.Duration

	calls   []*Call
	cursors []*cursor
	// byName holds the cursors by name; nil: the cursor does not exist.
	byName map[contention.Cursor]*cursor
	// redriven: one of the cursors has redriven messages.
	redriven   bool
	partitions []int64
	groups     []string
	unknown    unknownSeqs
	// begun: the transaction is open already.
	begun bool
}

// unknownSeqs are the messages to look up, by array, and where to store their positions.
type unknownSeqs struct {
	partitions   []int64
	transactions []string
	seqs         []*int64
}

// cursor is a cursor that the flush touches.
type cursor struct {
	partition, group int64
	// partitionID is the wire id of its partition.
	partitionID queue.ID
	// lastSeq is the last seq of the partition when the cursor was locked, and redrives whether the
	// cursor has redriven messages.
	lastSeq  int64
	redrives bool
	state    cursorState
	change   ackChange
	dead     []deadLetter
	// redriven are the redriven messages that are acknowledged, by seq, and redelivered what becomes of
	// the cursor by them.
	redriven    map[int64]*redriven
	redelivered redeliveryChange
}

// deadLetter is a message to park.
type deadLetter struct {
	seq      int64
	failures int32
	reason   string
}

// NewFlush returns a flush of resolved calls.
func NewFlush(calls []*Call) *Flush {
	f := &Flush{calls: calls, byName: map[contention.Cursor]*cursor{}}
	for _, call := range calls {
		for _, i := range call.Found {
			name := call.cursorOf(i)
			if _, ok := f.byName[name]; !ok {
				f.byName[name] = nil
				f.partitions, f.groups = append(f.partitions, name.Partition), append(f.groups, name.Group)
			}
			if call.Seqs[i] == 0 {
				u := &f.unknown
				u.partitions, u.transactions = append(u.partitions, name.Partition), append(u.transactions, call.Items[i].TransactionID)
				u.seqs = append(u.seqs, &call.Seqs[i])
			}
		}
	}
	return f
}

// Partitions returns the partitions of the acks.
func (f *Flush) Partitions() []int64 { return f.partitions }

// Empty says that the flush has neither acks nor leases.
func (f *Flush) Empty() bool { return len(f.partitions)+len(f.Leases) == 0 }

func (f *Flush) cursorNames() []contention.Cursor { return slices.Collect(maps.Keys(f.byName)) }

// cursor returns the cursor of an item, or nil when it does not exist. A cursor whose partition has
// another wire id belongs to another partition, which got the same database id in another epoch.
func (f *Flush) cursor(call *Call, item int) *cursor {
	c := f.byName[call.cursorOf(item)]
	if c == nil || c.partitionID != call.Partitions[item].ID {
		return nil
	}
	return c
}

// LiveLeases returns the live leases of the locked cursors.
func (f *Flush) LiveLeases() map[string]bool {
	live := map[string]bool{}
	for _, c := range f.cursors {
		if c.state.leaseLive {
			live[c.state.leaseID] = true
		}
	}
	return live
}

// LeaseOf returns the live lease of an item's cursor, or "". ok is false when there is no cursor.
func (f *Flush) LeaseOf(call *Call, item int) (lease string, ok bool) {
	c := f.cursor(call, item)
	if c == nil {
		return "", false
	}
	if !c.state.leaseLive {
		return "", true
	}
	return c.state.leaseID, true
}

// run locks, judges, writes, commits and wakes.
func (f *Flush) run(ctx context.Context, a *Acker, conn *pgxpool.Conn) error {
	b := &pgx.Batch{}
	if !f.begun {
		b.Queue("BEGIN")
	}
	f.QueueLook(b)
	err := pipeline.Send(ctx, conn, b, func(results pgx.BatchResults) error {
		if !f.begun {
			if err := pipeline.Skip(results, "beginning"); err != nil {
				return err
			}
		}
		return f.ReadLook(results)
	})
	if err != nil {
		return err
	}
	if err := f.FindRedriven(ctx, conn); err != nil {
		return err
	}
	for _, call := range f.calls {
		f.Judge(call)
	}
	return f.apply(ctx, a, conn)
}

// QueueLook adds to b the statements that lock the cursors and find the messages.
func (f *Flush) QueueLook(b *pgx.Batch) {
	queuePatience(b, f.Patience)
	if len(f.Leases) == 0 {
		b.Queue(sqlAckLock, f.partitions, f.groups)
	} else {
		b.Queue(sqlTransactionLock, f.partitions, f.groups, names.RawIDs(f.Leases))
	}
	if len(f.unknown.partitions) > 0 {
		b.Queue(sqlAckFind, f.unknown.partitions, f.unknown.transactions)
	}
}

// ReadLook reads the results of QueueLook.
func (f *Flush) ReadLook(results pgx.BatchResults) error {
	if err := pipeline.Skip(results, "setting the lock timeout"); err != nil {
		return err
	}
	if err := f.readCursors(results); err != nil {
		return err
	}
	if len(f.unknown.partitions) == 0 {
		return nil
	}
	return f.readSeqs(results)
}

func (f *Flush) readCursors(results pgx.BatchResults) error {
	rows, err := results.Query()
	if err != nil {
		return fmt.Errorf("locking cursors: %w", err)
	}
	var c cursor
	var name string
	var lease pgtype.UUID
	var backoff int64
	var redriven pgtype.Bool
	_, err = pgx.ForEachRow(rows, []any{
		&c.partition, &c.group, &name, &c.state.committed, &c.state.skip, &c.state.failures, &c.state.attempts,
		&lease, &c.state.leaseLive, &c.state.leaseEnd, &c.state.retryLimit, &backoff, &redriven, &c.lastSeq, (*[16]byte)(&c.partitionID),
	}, func() error {
		one := c
		one.state.retryBackoff, one.state.random = time.Duration(backoff)*time.Millisecond, rand.Float64()
		one.redrives = redriven.Bool
		f.redriven = f.redriven || one.redrives
		if lease.Valid {
			one.state.leaseID = queue.ID(lease.Bytes).String()
		}
		f.byName[contention.Cursor{Partition: one.partition, Group: name}] = &one
		f.cursors = append(f.cursors, &one)
		c.state.skip = nil
		return nil
	})
	if err != nil {
		return fmt.Errorf("locking cursors: %w", err)
	}
	return nil
}

func (f *Flush) readSeqs(results pgx.BatchResults) error {
	rows, err := results.Query()
	if err != nil {
		return fmt.Errorf("finding messages: %w", err)
	}
	var ord, seq int64
	_, err = pgx.ForEachRow(rows, []any{&ord, &seq}, func() error {
		*f.unknown.seqs[ord-1] = seq
		return nil
	})
	if err != nil {
		return fmt.Errorf("finding messages: %w", err)
	}
	return nil
}

// Judge applies the rules to one call, cursor by cursor, and fills its results. Calls are judged one
// after the other, as if each had its own transaction.
func (f *Flush) Judge(call *Call) {
	entries := map[*cursor][]ackEntry{}
	var touched []*cursor
	for _, i := range call.Found {
		cursor := f.cursor(call, i)
		switch {
		case call.Seqs[i] == 0:
			call.Results[i].Error = ErrMessageNotFound
		case cursor == nil && call.Items[i].LeaseID != "":
			// The group was deleted, and its leases with it.
			call.Results[i].Error = errLease
		case cursor == nil:
			call.Results[i].Error = errNoCursor
		default:
			if entries[cursor] == nil {
				touched = append(touched, cursor)
			}
			entries[cursor] = append(entries[cursor], ackEntry{
				item: i, seq: call.Seqs[i], lease: strings.ToLower(call.Items[i].LeaseID), status: call.Items[i].Status,
			})
		}
	}
	for _, cursor := range touched {
		change, verdicts := cursor.judge(entries[cursor])
		for k, verdict := range verdicts {
			item := entries[cursor][k].item
			result := &call.Results[item]
			result.Success, result.Error, result.DeadLettered = verdict.success, verdict.err, verdict.dead
			result.Resolved = verdict.success
			result.LeaseReleased = !cursor.state.leaseLive || change.release || cursor.redelivered.release
			if verdict.park {
				reason := call.Items[item].Error
				if reason == "" {
					reason = defaultDeadReason
				}
				cursor.dead = append(cursor.dead, deadLetter{entries[cursor][k].seq, verdict.failures, reason})
			}
		}
		cursor.follow(change)
	}
}

// follow adds change to what becomes of the cursor, and to what the next call sees.
func (c *cursor) follow(change ackChange) {
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
	if before.changed && before.committed == change.committed && change.retryDelay == 0 {
		c.change.retryDelay = before.retryDelay // the message with the delay is still the first one
	}
	c.state.committed, c.state.skip = change.committed, change.skip
	c.state.failures, c.state.attempts = change.failures, change.attempts
	if change.release {
		c.state.leaseLive, c.state.leaseID = false, ""
	}
}
