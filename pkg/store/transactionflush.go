package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// transactionFlush is one try to commit a transaction, in two round trips: the
// first locks, appends and looks, the second writes what was decided, commits and
// wakes.
type transactionFlush struct {
	t    *transaction
	push *pushFlush
	acks *ackFlush
	// stored are, by place in push.stored, the ids that were stored before.
	stored map[int64]queue.ID
}

// flushTransaction commits a transaction; the manager hands over one at a time.
// When the outcome of an earlier try is unknown it is found out, if it pushed
// anything: what is stored under our own message ids was stored by us, and so was
// everything else.
//
// It is alone in its database transaction, and yet in the way of strangers while it
// waits for a cursor that somebody holds: of those who push to the partitions it has
// locked, and of the transactions that wait for it to leave. So it gives way after
// lockPatience as well, with a heldError; Transact lets it wait for the cursor with
// nothing in hand, and sends it again.
func (s *Store) flushTransaction(ctx context.Context, calls []*transaction) ([]error, error) {
	ctx, cancel := s.pool.Bounded(ctx)
	defer cancel()
	t := calls[0]
	if held, _ := s.heldCursors.among([]*ack{t.ack}); len(held) > 0 {
		return []error{held[t.ack]}, nil
	}
	// A message of this transaction may have another place than in an earlier try.
	a := *t.ack
	a.seqs = slices.Clone(t.ack.seqs)
	f := &transactionFlush{t: t, push: newPushFlush([]*push{t.push}), acks: newAckFlush([]*ack{&a}), stored: map[int64]queue.ID{}}
	f.acks.leases, f.acks.patience = t.required, lockPatience
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	err = f.run(ctx, s, conn)
	rollback(ctx, conn)
	var held *heldError
	if postgres.SQLState(err) == postgres.LockTimeout {
		held, err = s.whoHolds(ctx, conn, f.acks, &heldError{since: began, waited: err})
	}
	conn.Release()
	if held != nil {
		return []error{held}, nil
	}
	if err == nil && t.again {
		// Whoever committed it may not have come to the wake, or not have heard of whom
		// it woke.
		s.wake(ctx, f.touched())
		s.resync("a transaction had been applied by a try without an answer")
	}
	return nil, err
}

// whoHolds completes held by a cursor that somebody holds.
func (s *Store) whoHolds(ctx context.Context, conn *pgxpool.Conn, f *ackFlush, held *heldError) (*heldError, error) {
	names, err := readHeld(conn.Query(ctx, sqlAckHeld, used(f.partitions), used(f.groups), rawIDs(f.leases)))
	if err != nil {
		return nil, err
	}
	s.heldCursors.learn(nil, names)
	if len(names) > 0 {
		held.cursor = names[0]
	}
	return held, nil
}

func (f *transactionFlush) run(ctx context.Context, s *Store, conn *pgxpool.Conn) error {
	if err := f.look(ctx, s, conn); err != nil {
		return err
	}
	if f.findAgain(); f.t.again {
		return nil
	}
	if err := f.acks.findRedriven(ctx, conn); err != nil {
		return err
	}
	f.decide()
	if f.t.refused() {
		return nil
	}
	err := f.apply(ctx, s, conn)
	if len(f.push.stored) == 0 {
		return commitError(err) // there is nothing to find it out by
	}
	return err
}

// look locks partitions and then cursors, appends, and finds messages.
func (f *transactionFlush) look(ctx context.Context, s *Store, conn *pgxpool.Conn) error {
	b := &pgx.Batch{}
	b.Queue("BEGIN")
	pushes, acks := len(f.push.stored) > 0, len(f.acks.partitions)+len(f.acks.leases) > 0
	if pushes {
		args, err := f.push.columns(s)
		if err != nil {
			return err
		}
		b.Queue(sqlAppend, args...)
		f.t.push.tried = true
	}
	if acks {
		f.acks.queueLook(b)
	}
	return s.runBatch(ctx, conn, b, func(results pgx.BatchResults) error {
		if err := skip(results, "beginning a transaction"); err != nil {
			return err
		}
		if pushes {
			if err := f.readStored(results); err != nil {
				return err
			}
		}
		if acks {
			return f.acks.readLook(results)
		}
		return nil
	})
}

// readStored reads which items were stored before.
func (f *transactionFlush) readStored(results pgx.BatchResults) error {
	rows, err := results.Query()
	if err != nil {
		return fmt.Errorf("inserting %d messages: %w", len(f.push.stored), err)
	}
	var at int64
	var id [16]byte
	_, err = pgx.ForEachRow(rows, []any{&at, &id}, func() error {
		f.stored[at-1] = id
		return nil
	})
	if err != nil {
		return fmt.Errorf("inserting %d messages: %w", len(f.push.stored), err)
	}
	return nil
}

// findAgain sees whether this very transaction was committed before: then one of
// its messages is there, and so all of it is done.
func (f *transactionFlush) findAgain() {
	t := f.t
	for at, id := range f.stored {
		p := f.push.stored[at]
		t.again = t.again || id == p.id() || t.push.items[p.item].TransactionID != "" && sameStamp(id, p.id())
	}
	for at, p := range f.push.stored {
		p.result().MessageID = p.id()
		if t.again {
			p.result().MessageID = f.stored[int64(at)]
		}
	}
	if t.again && !t.judged {
		for i := range t.ack.results {
			t.ack.results[i].Success, t.ack.results[i].Error = true, ""
			t.ack.results[i].DeadLettered = t.ack.items[i].Status == queue.AckDead
		}
	}
}

// decide judges the operations. Nothing is written yet but the messages.
func (f *transactionFlush) decide() {
	t := f.t
	for at := range f.stored {
		item := f.push.stored[at].item
		t.failures[t.pushAt[item]] = duplicate(&t.push.items[item])
	}
	a := f.acks.calls[0]
	f.hideLaterPushes(a)
	uncovered := f.uncovered(a) // before the rules release leases
	f.acks.decide(a)
	t.judged = true
	for i, at := range t.ackAt {
		switch result := &a.results[i]; {
		case !result.Success:
			t.failures[at] = result.Error
		case uncovered[i]:
			t.failures[at] = errNotCovered
		}
	}
}

// hideLaterPushes makes a message unknown to an ack that stands before its push,
// as it would be if the operations were done one after the other.
func (f *transactionFlush) hideLaterPushes(a *ack) {
	if len(a.items) == 0 {
		return
	}
	pushedAt := make(map[deliveredName]int, len(f.push.stored))
	for at, p := range f.push.stored {
		if _, duplicate := f.stored[int64(at)]; duplicate {
			continue
		}
		pushedAt[deliveredName{p.partition().Key, p.result().TransactionID}] = f.t.pushAt[p.item]
	}
	for _, i := range a.found {
		if at, ok := pushedAt[deliveredName{a.partition[i].Key, a.items[i].TransactionID}]; ok && at > f.t.ackAt[i] {
			a.seqs[i] = 0
		}
	}
}

// uncovered says of each ack whether it should have been under a required lease
// and was not. A required lease that is not live at all is in the way of all.
func (f *transactionFlush) uncovered(a *ack) []bool {
	out := make([]bool, len(a.items))
	if len(f.t.required) == 0 {
		return out
	}
	live := map[string]bool{}
	for _, c := range f.acks.cursors {
		if c.state.leaseLive {
			live[c.state.leaseID] = true
		}
	}
	required := map[string]bool{}
	for _, id := range f.t.required {
		lease := id.String()
		if required[lease] = true; !live[lease] {
			f.t.why = leaseNotLive(lease)
		}
	}
	for _, i := range a.found {
		c := f.acks.cursor(a, i)
		out[i] = a.items[i].LeaseID == "" && c != nil && (!c.state.leaseLive || !required[c.state.leaseID])
	}
	return out
}

// apply writes the cursors and commits; the wake follows in the same round trip.
func (f *transactionFlush) apply(ctx context.Context, s *Store, conn *pgxpool.Conn) error {
	w, touched := f.acks.writes(), f.touched()
	b := &pgx.Batch{}
	w.queue(b)
	b.Queue("COMMIT")
	b.Queue(sqlWake, touched)
	var committed bool
	var ready []queue.Ready
	err := s.runBatch(ctx, conn, b, func(results pgx.BatchResults) error {
		var err error
		if ready, _, err = w.read(results); err != nil {
			return err
		}
		if err := skip(results, "committing a transaction"); err != nil {
			return err
		}
		committed = true
		ready = append(ready, s.readWake(results, len(touched))...)
		return nil
	})
	if committed {
		s.announce(ready)
		return nil // whatever failed after that is not the caller's
	}
	return err
}

// touched are the partitions in which something may have become poppable.
func (f *transactionFlush) touched() []int64 {
	all := slices.Concat(f.push.partitions, f.acks.partitions)
	slices.Sort(all)
	return slices.Compact(all)
}
