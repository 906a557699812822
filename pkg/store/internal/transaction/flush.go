package transaction

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/pkg/store/internal/ack"
	"github.com/belfry-mq/belfry/pkg/store/internal/groupcommit"
	"github.com/belfry-mq/belfry/pkg/store/internal/pipeline"
	"github.com/belfry-mq/belfry/pkg/store/internal/push"
	"github.com/belfry-mq/belfry/pkg/store/internal/wake"
)

// flush is one try to commit a transaction, in two round trips: the first one locks, appends and
// reads, the second one writes, commits and wakes.
type flush struct {
	t    *call
	push *push.Flush
	acks *ack.Flush
	// call holds the acks of this try.
	call *ack.Call
	// before are the ids of the messages that were stored before, by index in push.Stored.
	before map[int]queue.ID
}

// flush commits one transaction. When the outcome of an earlier try is unknown and it pushed
// anything, this try finds out: messages that are stored with our own ids were stored by us, and so
// was everything else.
//
// While the transaction waits for a contended cursor it blocks the pushes to the partitions that it
// has locked. So it gives way after ack.LockPatience with a ContendedError. Transact then waits for
// the cursor without holding anything, and tries again.
func (r *Runner) flush(ctx context.Context, calls []*call) ([]error, error) {
	ctx, cancel := r.Pool.Bounded(ctx)
	defer cancel()
	t := calls[0]
	if contended := r.Acks.KnownContended(t.acks); contended != nil {
		return []error{contended}, nil
	}
	// A message of this transaction may get another seq than in an earlier try.
	acks := *t.acks
	acks.Seqs = slices.Clone(t.acks.Seqs)
	f := &flush{t: t, push: push.NewFlush([]*push.Call{t.push}), acks: ack.NewFlush([]*ack.Call{&acks}), call: &acks}
	f.acks.Leases, f.acks.Patience = t.required, ack.LockPatience
	contended, err := r.run(ctx, f)
	if contended != nil {
		return []error{contended}, nil
	}
	if err == nil && t.appliedBefore {
		// The try that committed may have ended before its wake, or before its announcement.
		r.Waker.Wake(ctx, f.touched())
		r.Waker.Resync("a transaction had been applied by a try without an answer")
	}
	return nil, err
}

// run runs f on a connection. contended is set when another session holds a cursor of it.
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
	if err := f.look(ctx, r, conn); err != nil {
		return err
	}
	if f.findAppliedBefore(); f.t.appliedBefore {
		return nil
	}
	if err := f.acks.FindRedriven(ctx, conn); err != nil {
		return err
	}
	f.judge()
	if f.t.refused() {
		return nil
	}
	err := f.apply(ctx, r, conn)
	if len(f.push.Stored) == 0 {
		return groupcommit.CommitError(err) // without messages no try can find out the outcome
	}
	return err
}

// look locks partitions and then cursors, appends, and finds messages.
func (f *flush) look(ctx context.Context, r *Runner, conn *pgxpool.Conn) error {
	b := &pgx.Batch{}
	b.Queue("BEGIN")
	pushes, acks := len(f.push.Stored) > 0, !f.acks.Empty()
	if pushes {
		columns, err := f.push.Columns(r.Pushes.Sealer)
		if err != nil {
			return err
		}
		push.QueueAppend(b, columns)
	}
	if acks {
		f.acks.QueueLook(b)
	}
	return pipeline.Send(ctx, conn, b, func(results pgx.BatchResults) (err error) {
		if err := pipeline.Skip(results, "beginning a transaction"); err != nil {
			return err
		}
		if pushes {
			if f.before, err = f.push.ReadStored(results); err != nil {
				return err
			}
		}
		if acks {
			return f.acks.ReadLook(results)
		}
		return nil
	})
}

// findAppliedBefore sees whether this very transaction was committed before: then one of its
// messages is stored.
func (f *flush) findAppliedBefore() {
	t := f.t
	for at, id := range f.before {
		ref := f.push.Stored[at]
		t.appliedBefore = t.appliedBefore || id == ref.ID() || t.push.Items[ref.Item].TransactionID != "" && sameFingerprint(id, ref.ID())
	}
	for at, ref := range f.push.Stored {
		ref.Result().MessageID = ref.ID()
		if t.appliedBefore {
			ref.Result().MessageID = f.before[at]
		}
	}
	if t.appliedBefore && !t.judged {
		for i := range t.acks.Results {
			t.acks.Results[i].Success, t.acks.Results[i].Error = true, ""
			t.acks.Results[i].DeadLettered = t.acks.Items[i].Status == queue.AckDead
		}
	}
}

// judge judges the operations. Until now only the messages are written.
func (f *flush) judge() {
	t := f.t
	for at := range f.before {
		item := f.push.Stored[at].Item
		t.failures[t.pushAt[item]] = duplicate(&t.push.Items[item])
	}
	f.hideLaterPushes()
	uncovered := f.uncovered() // before the rules release leases
	f.acks.Judge(f.call)
	t.judged = true
	for i, at := range t.ackAt {
		switch result := &f.call.Results[i]; {
		case !result.Success:
			t.failures[at] = result.Error
		case uncovered[i]:
			t.failures[at] = errNotCovered
		}
	}
}

// hideLaterPushes makes a message unknown to an ack that comes before its push, as if the operations
// were done one after the other.
func (f *flush) hideLaterPushes() {
	type messageKey struct {
		partition     int64
		transactionID string
	}
	if len(f.call.Items) == 0 {
		return
	}
	pushedAt := make(map[messageKey]int, len(f.push.Stored))
	for at, ref := range f.push.Stored {
		if _, duplicate := f.before[at]; duplicate {
			continue
		}
		pushedAt[messageKey{ref.Partition().Key, ref.Result().TransactionID}] = f.t.pushAt[ref.Item]
	}
	for _, i := range f.call.Found {
		if at, ok := pushedAt[messageKey{f.call.Partitions[i].Key, f.call.Items[i].TransactionID}]; ok && at > f.t.ackAt[i] {
			f.call.Seqs[i] = 0
		}
	}
}

// uncovered says, by ack, whether it had to be under a required lease and is not. A required lease
// that is not live refuses the whole transaction.
func (f *flush) uncovered() []bool {
	out := make([]bool, len(f.call.Items))
	if len(f.t.required) == 0 {
		return out
	}
	live := f.acks.LiveLeases()
	required := map[string]bool{}
	for _, id := range f.t.required {
		lease := id.String()
		if required[lease] = true; !live[lease] {
			f.t.failure = leaseNotLive(lease)
		}
	}
	for _, i := range f.call.Found {
		if f.call.Items[i].LeaseID == "" {
			lease, exists := f.acks.LeaseOf(f.call, i)
			out[i] = exists && !required[lease]
		}
	}
	return out
}

// apply writes the cursors and commits. The wake follows in the same round trip.
func (f *flush) apply(ctx context.Context, r *Runner, conn *pgxpool.Conn) error {
	w, touched := f.acks.Writes(), f.touched()
	b := &pgx.Batch{}
	w.Queue(b)
	b.Queue("COMMIT")
	wake.Queue(b, touched)
	var committed bool
	var ready []queue.Ready
	err := pipeline.Send(ctx, conn, b, func(results pgx.BatchResults) error {
		var err error
		if ready, _, err = w.Read(results); err != nil {
			return err
		}
		if err := pipeline.Skip(results, "committing a transaction"); err != nil {
			return err
		}
		committed = true
		ready = append(ready, r.Waker.Read(results, len(touched))...)
		return nil
	})
	if committed {
		r.Waker.Announce(ready)
		return nil // a later failure does not concern the caller
	}
	return err
}

// touched returns the partitions in which something may have become poppable.
func (f *flush) touched() []int64 {
	all := slices.Concat(f.push.Partitions, f.acks.Partitions())
	slices.Sort(all)
	return slices.Compact(all)
}
