package transaction

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/belfry-mq/belfry/pkg/engine/store/internal/ack"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/groupcommit"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/pipeline"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/push"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/wake"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// flush is one attempt to commit a transaction, in two round trips. The first round trip appends the
// messages and applies the acks. The second commits and wakes, or rolls back a refused transaction. If
// acknowledged messages must be looked up, the append and the acks take one round trip each.
type flush struct {
	t    *call
	push *push.Flush
	acks *ack.Flush
	// call is a copy of the acks for this attempt, because a message of this transaction may get
	// another seq in each attempt.
	call *ack.Call
	// before has the ids of messages that were already stored, by index in push.Stored.
	before map[int]queue.ID
	// ackAt has the index of the operation of each ack of call. A cycle adds further acks. redrivesOf are
	// the acks whose redriven messages queueRedrives looks up.
	ackAt, redrivesOf []int
}

// flush commits one transaction. If the outcome of an earlier attempt with pushes is unknown, this
// attempt detects it: if the messages of the transaction are stored with its own ids, the whole
// transaction was committed.
//
// While the transaction waits for a contended cursor it blocks the pushes to the partitions that it
// has locked. So it rolls back after ack.LockPatience with a ContendedError. Transact then waits
// for the cursor without holding a lock, and tries again.
func (r *Runner) flush(ctx context.Context, calls []*call) ([]error, error) {
	ctx, cancel := r.Pool.Bounded(ctx)
	defer cancel()
	t := calls[0]
	if contended := r.Acks.KnownContended(t.acks); contended != nil {
		return []error{contended}, nil
	}
	acks := t.acks.Clone()
	f := &flush{
		t: t, push: push.NewFlush([]*push.Call{t.push}), acks: ack.NewFlush([]*ack.Call{acks}), call: acks, ackAt: slices.Clone(t.ackAt),
	}
	f.acks.Leases, f.acks.Patience = t.required, ack.LockPatience
	contended, err := r.run(ctx, f)
	if contended != nil {
		return []error{contended}, nil
	}
	if err == nil && t.appliedBefore {
		// The attempt that committed may have ended before its wake, or before its announcement.
		r.Waker.Wake(ctx, f.touched())
		r.Waker.Resync("an earlier attempt of a transaction was committed and its answer was lost")
	}
	return nil, err
}

// run runs f on a connection. contended is set if another session holds a cursor of f.
func (r *Runner) run(ctx context.Context, f *flush) (contended *ack.ContendedError, err error) {
	conn, err := r.Pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	began := time.Now()
	err = f.run(ctx, r, conn)
	pipeline.Rollback(ctx, conn)
	if postgres.SQLState(err) != postgres.LockTimeout {
		return nil, err
	}
	cursor, finding := r.Acks.FindContended(ctx, conn, f.acks)
	if finding != nil {
		return nil, finding
	}
	return &ack.ContendedError{Cursor: cursor, Since: began, Cause: err}, nil
}

func (f *flush) run(ctx context.Context, r *Runner, conn *pgxpool.Conn) error {
	if err := f.apply(ctx, r, conn); err != nil {
		return err
	}
	if f.findAppliedBefore(); f.t.appliedBefore {
		return confirm(ctx, conn)
	}
	f.judge()
	if f.t.refused() {
		if len(f.before) > 0 {
			return confirm(ctx, conn)
		}
		return nil
	}
	if f.t.isRehearsal {
		return nil
	}
	err := f.commit(ctx, r, conn)
	if len(f.push.Stored) == 0 {
		return groupcommit.CommitError(err) // without messages no attempt can detect the outcome
	}
	return err
}

// confirm rolls back the transaction, which found messages that an earlier transaction has stored. It waits until no
// failover can undo the earlier transaction, because the answer to the caller depends on it.
func confirm(ctx context.Context, conn *pgxpool.Conn) error {
	pipeline.Rollback(ctx, conn)
	if err := postgres.Confirm(ctx, conn.Conn()); err != nil {
		return fmt.Errorf("waiting until a repeated transaction is safe: %w", err)
	}
	return nil
}

// apply locks partitions and then cursors, appends the messages and applies the acks. A cycle first takes
// its own locks (queueLock). It changes the state after the append and before the acks.
func (f *flush) apply(ctx context.Context, r *Runner, conn *pgxpool.Conn) error {
	b := &pgx.Batch{}
	b.Queue("BEGIN")
	f.t.cycle.queueLock(b)
	pushes, acks := len(f.push.Stored) > 0, !f.acks.Empty()
	if pushes {
		if err := f.push.QueueAppend(b, r.Pushes.Sealer); err != nil {
			return err
		}
	}
	f.t.cycle.queueChanges(b)
	find := acks && f.acks.NeedsFind()
	switch {
	case find:
		f.acks.QueueFind(b)
		f.queueRedrives(b)
	case acks:
		f.completeAcks()
		f.acks.Queue(b)
	}
	err := pipeline.Send(ctx, conn, b, func(results pgx.BatchResults) error {
		if err := f.readAppended(results, pushes); err != nil {
			return err
		}
		switch {
		case find:
			if err := f.acks.ReadFind(results); err != nil {
				return err
			}
			return f.readRedrives(results)
		case acks:
			return f.acks.Read(results)
		}
		return nil
	})
	if err != nil || !find {
		return err
	}
	f.hideLaterPushes()
	f.completeAcks()
	b = &pgx.Batch{}
	f.acks.Queue(b)
	return pipeline.Send(ctx, conn, b, f.acks.Read)
}

// readAppended reads the results of the statements of apply before the acks.
func (f *flush) readAppended(results pgx.BatchResults, pushes bool) (err error) {
	if err := pipeline.Skip(results, "beginning a transaction"); err != nil {
		return err
	}
	if err := f.t.readLock(results); err != nil {
		return err
	}
	if pushes {
		if f.before, err = f.push.ReadStored(results); err != nil {
			return err
		}
	}
	return f.t.readChanges(results)
}

// hideLaterPushes makes an ack miss a message that a later operation of the transaction pushes, as
// if the operations ran one after the other.
func (f *flush) hideLaterPushes() {
	type messageKey struct {
		partition     int64
		transactionID string
	}
	pushedAt := make(map[messageKey]int, len(f.push.Stored))
	for at, ref := range f.push.Stored {
		if _, duplicate := f.before[at]; !duplicate {
			pushedAt[messageKey{ref.Partition().Key, ref.Result().TransactionID}] = f.t.pushAt[ref.Item]
		}
	}
	for _, i := range f.call.Found {
		if at, ok := pushedAt[messageKey{f.call.Partitions[i].Key, f.call.Items[i].TransactionID}]; ok && at > f.ackAt[i] {
			f.call.Seqs[i] = 0
		}
	}
}

// findAppliedBefore sets appliedBefore if this transaction was already committed. Then one of its
// messages is stored with its fingerprint. The acks keep the results of the attempt that judged
// them first. If this process has no such results, all acks count as successful.
func (f *flush) findAppliedBefore() {
	t := f.t
	for at, ref := range f.push.Stored {
		id, exists := f.before[at]
		own := id == ref.ID() || t.push.Items[ref.Item].TransactionID != "" && sameFingerprint(id, ref.ID())
		t.appliedBefore = t.appliedBefore || exists && own
		ref.Result().MessageID, ref.Result().Duplicate = ref.ID(), exists && !own
		if exists {
			ref.Result().MessageID = id
		}
	}
	f.repeatResults()
	if !t.appliedBefore {
		return
	}
	for at, ref := range f.push.Stored {
		ref.Result().MessageID = f.before[at]
	}
	f.repeatResults()
	if !t.judged {
		for i := range t.acks.Results {
			t.acks.Results[i].Success, t.acks.Results[i].Error = true, ""
			t.acks.Results[i].DeadLettered = t.acks.Items[i].Status == queue.AckDead
		}
	}
}

// repeatResults gives an item whose transaction id occurs earlier in the cycle the result of the earlier
// item. Other transactions are refused.
func (f *flush) repeatResults() {
	for i, first := range f.t.push.First {
		if first != i {
			f.t.push.Results[i] = f.t.push.Results[first]
			f.t.push.Results[i].Duplicate = true
		}
	}
}

// judge refuses the operations that could not be applied. It runs before the commit.
func (f *flush) judge() {
	t := f.t
	if t.cycle == nil {
		for at := range f.before {
			item := f.push.Stored[at].Item
			t.failures[t.pushAt[item]] = duplicate(&t.push.Items[item])
		}
	}
	copy(t.acks.Results, f.call.Results)
	t.judged = true
	if t.stale() {
		t.failure = errStale
	}
	uncovered := f.uncovered()
	for i, at := range f.ackAt {
		switch result := &f.call.Results[i]; {
		case !result.Success:
			t.failures[at] = cmp.Or(t.failures[at], result.Error)
		case uncovered[i]:
			t.failures[at] = errNotCovered
		}
	}
}

// uncovered returns true for each ack that needs a required lease but is not covered by one. If a
// required lease was not live, the whole transaction is refused.
func (f *flush) uncovered() []bool {
	acks := f.call
	out := make([]bool, len(acks.Items))
	if len(f.t.required) == 0 {
		return out
	}
	for _, lease := range f.t.required {
		if !f.acks.LiveBefore(lease) {
			f.t.failure = leaseNotLive(lease.String())
		}
	}
	for i, lease := range f.acks.LeaseBefore(f.call) {
		out[i] = acks.Items[i].LeaseID == "" && !slices.Contains(f.t.required, lease)
	}
	return out
}

// commit commits, and wakes in the same round trip.
func (f *flush) commit(ctx context.Context, r *Runner, conn *pgxpool.Conn) error {
	touched := f.touched()
	b := &pgx.Batch{}
	steps := []string{"committing a transaction"}
	f.queueMark(b)
	if f.t.auditRow != nil {
		b.Queue(f.t.auditRow.statement, f.t.auditRow.args...)
		steps = []string{"writing the audit row", "committing a transaction"}
	}
	b.Queue("COMMIT")
	wake.Queue(b, touched)
	var committed bool
	ready := f.acks.Ready()
	err := pipeline.Send(ctx, conn, b, func(results pgx.BatchResults) error {
		if err := f.readMark(results); err != nil {
			return err
		}
		if err := pipeline.Skip(results, steps...); err != nil {
			return err
		}
		committed = true
		ready = append(ready, r.Waker.Read(results, len(touched))...)
		return nil
	})
	if committed {
		r.Waker.Announce(ready)
		return postgres.Confirmed(conn.Conn()) // the transaction is committed, so a later error is not an error of the caller
	}
	return err
}

// touched returns the partitions that may have become ready.
func (f *flush) touched() []int64 {
	all := slices.Concat(f.push.Partitions, f.acks.Partitions)
	slices.Sort(all)
	return slices.Compact(all)
}
