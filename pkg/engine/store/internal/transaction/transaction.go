// Package transaction applies pushes and acks together or not at all, each transaction in a
// separate database transaction.
//
// It uses the statements, locks and rules of internal/push and internal/ack. Transactions share no
// commit, because a refused transaction is rolled back. A transaction locks its partitions during two
// round trips. So precheck refuses invalid operations before the first lock. pkg/engine/store imports
// this package.
package transaction

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/engine/batch"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/ack"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/groupcommit"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/names"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/push"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/quota"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/wake"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// openAttempts is the maximum number of times that a transaction looks up partitions again because
// they were deleted.
const openAttempts = 3

// The reasons why a transaction, or one of its operations, is not applied. Clients see these texts.
const (
	errUnknownStatus = "Unknown status: use completed, success, failed, retry or dlq"
	errNotCovered    = "Invalid or expired lease: none of requiredLeases is the group's live lease on this partition"
	pushFailed       = "PUSH operation failed: "
	ackFailed        = "ACK operation failed: "
)

// Deps are the dependencies of a Runner.
type Deps struct {
	Pool   *postgres.Pool
	Names  *names.Directory
	Quotas *quota.Quotas
	Waker  *wake.Waker
	Pushes *push.Pusher
	Acks   *ack.Acker
}

// Runner applies transactions. It is safe for concurrent use.
type Runner struct {
	Deps
	flushes *batch.Manager[*call]
}

// New returns a Runner. Its manager makes one flush per transaction, because a refused transaction
// is rolled back. The manager runs transactions with a common partition one after the other, so
// that they hold no connections while they wait.
func New(deps Deps, cfg batch.Config, metrics *groupcommit.Metrics) *Runner {
	cfg.MaxSize, cfg.MaxWait, cfg.ConcurrentSize = 1, 0, 1
	r := &Runner{Deps: deps}
	r.flushes = groupcommit.NewManager(metrics, "transaction", cfg, r.flush)
	return r
}

// Close refuses new transactions, and waits until the accepted transactions are answered or ctx
// ends.
func (r *Runner) Close(ctx context.Context) error { return r.flushes.Close(ctx) }

// Transact applies the operations of tx; see Store.Transact.
func (r *Runner) Transact(ctx context.Context, tx *queue.Transaction) (queue.TransactionResult, error) {
	ctx, cancel := r.Pool.Bounded(ctx)
	defer cancel()
	t := newCall(tx)
	if err := r.Acks.Resolve(ctx, t.acks); err != nil {
		return queue.TransactionResult{}, postgres.Wrap(err)
	}
	if err := r.resolve(ctx, t); err != nil {
		return queue.TransactionResult{}, postgres.Wrap(err)
	}
	if t.precheck(); t.refused() {
		return t.result(), nil
	}
	entry := t.audit(ctx)
	var err error
	if t.push.Items, err = r.Pushes.Prepare(ctx, t.push.Items); err != nil {
		return queue.TransactionResult{}, postgres.Wrap(err)
	}
	var waitUntil time.Time // the waits for contended cursors together last at most ack.Patience
	for attempt := 0; ; {
		err := r.try(ctx, t)
		if err == nil {
			if entry != nil && !t.refused() {
				entry.MarkWritten()
			}
			return t.result(), nil
		}
		if contended := ack.ContendedIn(err); contended != nil {
			if waitUntil.IsZero() {
				waitUntil = contended.Since.Add(ack.Patience)
			}
			if err = r.Acks.WaitForCursor(ctx, contended, waitUntil); err == nil {
				continue
			}
		}
		if attempt == openAttempts || postgres.SQLState(err) != postgres.PartitionGone {
			return queue.TransactionResult{}, groupcommit.Wrap(err)
		}
		attempt++
		r.Names.Forget(slices.Concat(t.push.Opened, t.cycle.partitions()))
		if err := r.resolve(ctx, t); err != nil || t.refused() {
			return t.result(), postgres.Wrapf(err, "finding the partition of a cycle")
		}
	}
}

// try commits t unless t is refused. If t pushes to partitions that do not exist, try first runs the other
// operations as a rehearsal and rolls them back. So a refused transaction creates no queue.
func (r *Runner) try(ctx context.Context, t *call) error {
	for {
		rehearsal, err := r.rehearsal(ctx, t)
		if err != nil {
			return err
		}
		if rehearsal == nil {
			return r.commit(ctx, t)
		}
		err = r.commit(ctx, rehearsal)
		if err == nil && !rehearsal.refused() {
			return r.commit(ctx, t)
		}
		if err == nil {
			// A second copy of this transaction may have been committed meanwhile. Then the partitions exist.
			known, err := r.Names.Known(ctx, t.push.Partitions())
			if err != nil {
				return err
			}
			if len(known) > len(rehearsal.push.Partitions()) {
				continue
			}
		}
		t.failure, t.failures, t.push.Opened = rehearsal.failure, rehearsal.failures, rehearsal.push.Opened
		return err
	}
}

// rehearsal returns t without the pushes to partitions that do not exist. It returns nil if all partitions exist, or if no
// operation is left.
func (r *Runner) rehearsal(ctx context.Context, t *call) (*call, error) {
	known, err := r.Names.Known(ctx, t.push.Partitions())
	if err != nil || len(known) == len(t.push.Partitions()) {
		return nil, err
	}
	some := *t
	some.isRehearsal, some.pushAt, some.failures = true, nil, slices.Clone(t.failures)
	var at []int
	some.push, at = t.push.Only(func(name names.PartitionName) bool { return known[name] != nil })
	for _, i := range at {
		some.pushAt = append(some.pushAt, t.pushAt[i])
	}
	if len(at) == 0 && len(t.acks.Items) == 0 && len(t.required) == 0 && t.cycle == nil {
		return nil, nil
	}
	return &some, nil
}

// commit opens the partitions, reserves quota and runs the flush of t.
func (r *Runner) commit(ctx context.Context, t *call) error {
	stripes, err := r.Pushes.Open(ctx, t.push)
	if err != nil {
		return err
	}
	if err := r.Pushes.CheckKey(t.push); err != nil {
		return err
	}
	stripes = slices.Concat(stripes, t.acks.Stripes(), t.cycle.stripes())
	admission, err := r.Quotas.Admit(ctx, t.push.Demands())
	if err != nil {
		return err
	}
	err = r.flushes.Do(ctx, t, stripes, max(1, len(t.operations)-len(t.push.Items)+t.push.Size()))
	outcome := push.Outcome(err)
	if ack.ContendedIn(err) != nil || t.refused() || t.isRehearsal {
		outcome = quota.NotStored
	}
	admission.Settle(outcome)
	if err != nil {
		return fmt.Errorf("applying a transaction of %d operations: %w", len(t.operations), err)
	}
	return nil
}

// call is one call of Transact.
type call struct {
	operations []queue.Operation
	push       *push.Call
	acks       *ack.Call
	// pushAt and ackAt have the index of the operation of each item of push and of acks.
	pushAt, ackAt []int
	required      []queue.ID
	// cycle is nil if the transaction is not a cycle.
	cycle *cycle
	// failures has the reason of each refused operation. failure is the reason why the whole
	// transaction is refused.
	failures []string
	failure  string
	// appliedBefore is set if an earlier attempt, or an earlier copy of the transaction, was
	// committed.
	appliedBefore bool
	// isRehearsal makes the flush roll back.
	isRehearsal bool
	// judged is set when the acks have their results.
	judged bool
	// auditRow is committed with a transaction of an operator. It is nil for a transaction of a
	// client.
	auditRow *auditRow
	// resend is nil if the transaction is not a resend. removed is the number of dead letters that it deleted.
	resend  *queue.Resend
	removed int64
}

// auditRow is the statement that writes an audit row.
type auditRow struct {
	statement string
	args      []any
}

// audit prepares the audit row if ctx has an entry, and returns the entry.
func (t *call) audit(ctx context.Context) *audit.Entry {
	entry := audit.From(ctx)
	if entry == nil {
		return nil
	}
	if len(t.acks.Partitions) > 0 {
		audit.Locate(ctx, t.acks.Partitions[0].Queue, t.acks.Partitions[0].Name)
	}
	row := &auditRow{}
	row.statement, row.args = entry.Statement(audit.OK, audit.Counts{"messages": int64(len(t.operations))})
	t.auditRow = row
	return entry
}

func newCall(tx *queue.Transaction) *call {
	t := &call{operations: tx.Operations, resend: tx.Resend, failures: make([]string, len(tx.Operations))}
	var items []queue.PushItem
	var acks []queue.AckItem
	for at, op := range tx.Operations {
		if op.Push != nil {
			items, t.pushAt = append(items, *op.Push), append(t.pushAt, at)
		} else {
			acks, t.ackAt = append(acks, *op.Ack), append(t.ackAt, at)
		}
	}
	if tx.Cycle != nil {
		t.cycle = &cycle{Cycle: tx.Cycle}
		if len(acks) > 0 && acks[0].LeaseID != "" {
			nameItems(items, tx)
		}
	}
	t.push, t.acks = push.NewCall(items), ack.NewCall(acks)
	setFingerprints(t.push, tx)
	known := map[queue.ID]bool{}
	for _, text := range tx.RequiredLeases {
		if text == "" {
			continue // messages delivered with autoAck have no lease
		}
		id, err := queue.ParseID(text)
		switch {
		case err != nil:
			t.failure = leaseNotLive(text)
		case !known[id]:
			known[id] = true
			t.required = append(t.required, id)
		}
	}
	return t
}

func leaseNotLive(lease string) string {
	return fmt.Sprintf("Invalid or expired lease: %q of requiredLeases is not live", lease)
}

func duplicate(item *queue.PushItem) string {
	return fmt.Sprintf("Duplicate transactionId %q in queue %q, partition %q", item.TransactionID, item.Queue, item.Partition)
}

// precheck refuses invalid operations before the transaction takes a lock.
func (t *call) precheck() {
	for i, first := range t.push.First {
		if first != i && t.cycle == nil {
			t.failures[t.pushAt[i]] = duplicate(&t.push.Items[i])
		}
	}
	for i, at := range t.ackAt {
		switch {
		case t.acks.Partitions[i] == nil:
			t.failures[at] = ack.ErrMessageNotFound
		case t.acks.Items[i].Status == queue.AckUnknown:
			t.failures[at] = errUnknownStatus
		}
	}
}

// refused reports whether the transaction is refused.
func (t *call) refused() bool {
	return t.failure != "" || slices.ContainsFunc(t.failures, func(s string) bool { return s != "" })
}

// result returns the results in the order of the operations.
func (t *call) result() queue.TransactionResult {
	r := queue.TransactionResult{Applied: !t.refused(), Error: t.failure, Stale: t.failure == errStale, Removed: t.removed, Operations: make([]queue.OperationResult, len(t.operations))}
	if t.cycle != nil && t.cycle.partition != nil {
		r.Queue = t.cycle.partition.Queue
	}
	for i, at := range t.pushAt {
		r.Operations[at].Push = &t.push.Results[i]
	}
	for i, at := range t.ackAt {
		r.Operations[at].Ack = &t.acks.Results[i]
	}
	for at, failure := range t.failures {
		if failure == "" {
			continue
		}
		prefix := ackFailed
		if t.operations[at].Push != nil {
			prefix = pushFailed
		}
		r.Operations[at].Error = failure
		if r.Error == "" {
			r.Error = prefix + failure
		}
	}
	return r
}
