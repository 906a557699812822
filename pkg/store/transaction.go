package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/belfry-mq/belfry/pkg/batch"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Why a transaction is not applied, or one of its operations.
const (
	errUnknownStatus = "Unknown status: use completed, success, failed, retry or dlq"
	errNotCovered    = "Invalid or expired lease: none of requiredLeases is the group's live lease on this partition"
	pushFailed       = "PUSH operation failed: "
	ackFailed        = "ACK operation failed: "
)

// Transact applies the operations of tx together or not at all, in a database
// transaction of their own, and returns after its COMMIT. A result that is not
// Applied says why; then nothing has changed, except that the queues and
// partitions of its pushes exist, as after a push that failed.
//
// A push of a transaction id that its partition has is a refusal, not a
// duplicate. Acks follow the rules of Ack, those of one cursor as one call of
// it: in the order of the log, against the lease at the start. So `failed` counts
// a failure and is redelivered while retries are left, and AckDead parks at once:
// a word means the same everywhere, and who wants the dead letter can say so. An
// ack that Ack would not apply is a refusal.
//
// Each of RequiredLeases must be live, and each ack without a lease of its own
// must be in a partition, for its group, whose live lease is one of them. Empty
// ones are ignored; without any there is no such condition. All of it is checked
// under the locks that the commit releases.
//
// Where a consumer in SQL holds a cursor of it, it waits for that as Ack does.
//
// Errors: those of Push, CodeQueueFull among them. After CodeUnavailable the transaction may have been
// applied. The same operations sent again, to any instance, are not applied
// twice: message ids hold a hash of the whole transaction, so a push that finds
// its own is answered as the first time (an unnamed push beside it without its
// message id, and a failed ack without saying whether it was parked). That needs
// a transaction id, the caller's, on at least one push. Without pushes, acks that
// were applied are refused when their lease ended with them, as Ack does.
func (s *Store) Transact(ctx context.Context, tx *queue.Transaction) (queue.TransactionResult, error) {
	ctx, cancel := s.pool.Bounded(ctx)
	defer cancel()
	t := newTransaction(tx)
	if err := s.ackPartitions(ctx, t.ack); err != nil {
		return queue.TransactionResult{}, postgres.Wrap(err)
	}
	if t.precheck(); t.refused() {
		return t.result(), nil
	}
	var err error
	if t.push.items, err = s.dated(ctx, t.push.items); err != nil {
		return queue.TransactionResult{}, postgres.Wrap(err)
	}
	var wait *heldCall
	for attempt := 0; ; {
		err := s.transact(ctx, t)
		if err == nil {
			return t.result(), nil
		}
		if held := heldIn(err); held != nil {
			if wait == nil {
				wait = &heldCall{until: held.since.Add(ackPatience)}
			}
			if err = s.outwait(ctx, wait, held); err == nil {
				continue
			}
		}
		// A partition that was deleted since it was remembered is looked up again.
		if attempt == 3 || postgres.SQLState(err) != postgres.PartitionGone {
			return queue.TransactionResult{}, wrapBatched(err)
		}
		attempt++
		s.names.forget(t.push.opened)
	}
}

// transact opens the partitions and commits.
func (s *Store) transact(ctx context.Context, t *transaction) error {
	lanes, err := s.openLanes(ctx, t.push)
	if err != nil {
		return err
	}
	for _, i := range t.ack.found {
		lanes = append(lanes, batch.LockStripeOf(t.ack.partition[i].Key))
	}
	settle, err := s.admit(ctx, t.push.opened, t.push.counts())
	if err != nil {
		return err
	}
	n := len(t.operations)
	err = s.transactions.Do(ctx, t, lanes, max(1, n))
	settle(postgres.SQLState(err) == "" && heldIn(err) == nil && !t.refused())
	if err != nil {
		return fmt.Errorf("applying a transaction of %d operations: %w", n, err)
	}
	return nil
}

// newTransactions returns the manager of transactions. Each leaves alone, since
// one that is refused is rolled back. What they gain from a manager is its order:
// those that share a partition do not hold connections to wait for each other.
func (s *Store) newTransactions(cfg batch.Config, metrics *Metrics) *batch.Manager[*transaction] {
	cfg.MaxSize, cfg.MaxWait, cfg.ConcurrentSize = 1, 0, 1
	return batch.New(cfg, s.flushTransaction, judge, metrics.of("transaction"))
}

// transaction is one call of Transact on its way.
type transaction struct {
	operations []queue.Operation
	push       *push
	ack        *ack
	// pushAt and ackAt are the operations that the items of push and ack are.
	pushAt, ackAt []int
	required      []queue.ID
	// failures say, by operation, what stands in the way of it, and why what
	// stands in the way of all.
	failures []string
	why      string
	// again: an earlier try, or the same transaction sent before, was committed.
	again bool
	// judged: the acks have their results.
	judged bool
}

func newTransaction(tx *queue.Transaction) *transaction {
	t := &transaction{operations: tx.Operations, failures: make([]string, len(tx.Operations))}
	var items []queue.PushItem
	var acks []queue.AckItem
	for at, op := range tx.Operations {
		if op.Push != nil {
			items, t.pushAt = append(items, *op.Push), append(t.pushAt, at)
		} else {
			acks, t.ackAt = append(acks, *op.Ack), append(t.ackAt, at)
		}
	}
	t.push, t.ack = newPush(items), newAck(acks)
	stampIDs(t.push, tx)
	known := map[queue.ID]bool{}
	for _, text := range tx.RequiredLeases {
		if text == "" {
			continue // what autoAck delivered has no lease
		}
		id, err := queue.ParseID(text)
		switch {
		case err != nil:
			t.why = leaseNotLive(text)
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

// precheck refuses what needs no lock to be refused.
func (t *transaction) precheck() {
	for i, first := range t.push.first {
		if first != i {
			t.failures[t.pushAt[i]] = duplicate(&t.push.items[i])
		}
	}
	for i, at := range t.ackAt {
		switch {
		case t.ack.partition[i] == nil:
			t.failures[at] = errMessageNotFound
		case t.ack.items[i].Status == queue.AckUnknown:
			t.failures[at] = errUnknownStatus
		}
	}
}

// refused says whether anything stands in the way.
func (t *transaction) refused() bool {
	return t.why != "" || slices.ContainsFunc(t.failures, func(s string) bool { return s != "" })
}

// result puts the results in the order of the operations.
func (t *transaction) result() queue.TransactionResult {
	r := queue.TransactionResult{Applied: !t.refused(), Error: t.why, Operations: make([]queue.OperationResult, len(t.operations))}
	for i, at := range t.pushAt {
		r.Operations[at].Push = &t.push.results[i]
	}
	for i, at := range t.ackAt {
		r.Operations[at].Ack = &t.ack.results[i]
	}
	for at, failure := range t.failures {
		if failure == "" {
			continue
		}
		what := ackFailed
		if t.operations[at].Push != nil {
			what = pushFailed
		}
		r.Operations[at].Error = failure
		if r.Error == "" {
			r.Error = what + failure
		}
	}
	return r
}
