package store

import (
	"context"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// Ack applies acknowledgments in one transaction, which it may share with other calls, and returns
// their results in the same order, after the COMMIT. An ack that cannot be applied says why in its
// result and does not affect the others.
//
// A call that touches a cursor which a SQL consumer holds waits for the cursor by itself, for 2 s.
//
// Errors: CodeUnavailable; then the acks were applied or not, and sending them again is safe.
// CodeOverloaded: none was applied.
func (s *Store) Ack(ctx context.Context, items []queue.AckItem) ([]queue.AckResult, error) {
	return s.acks.Ack(ctx, items)
}

// Transact applies the operations of tx together or not at all, in a database transaction of their
// own, and returns after the COMMIT. A result that is not Applied says why. Then nothing has changed,
// except that the queues and partitions of its pushes exist, as after a failed push.
//
// A push of a transaction id that its partition already has is a refusal, not a duplicate. Acks follow
// the rules of Ack. The acks of one cursor are judged as one call: in the order of the log, against
// the lease at the start. An ack that Ack would not apply is a refusal. So `failed` counts a failure,
// and the message is redelivered while retries are left; AckDead parks it at once.
//
// Each of RequiredLeases must be live. Each ack without a lease of its own must be in a partition, for
// its group, whose live lease is a required one. Empty leases are ignored. Without any required lease
// there is no such condition. All conditions are checked under the locks that the commit releases.
//
// Where a SQL consumer holds one of the cursors, Transact waits for it as Ack does.
//
// Errors are the errors of Push, including CodeQueueFull. After CodeUnavailable the transaction was applied
// or not. The same operations sent again, to any instance, are not applied twice: message ids hold a
// fingerprint of the whole transaction. A repetition that finds its own messages gets the answer of
// the first time, except the message id of a push without transaction id, and whether a failed ack
// parked its message. This needs at least one push with a transaction id from the client. Without
// pushes, acks that were applied are refused if their lease ended with them, as by Ack.
func (s *Store) Transact(ctx context.Context, tx *queue.Transaction) (queue.TransactionResult, error) {
	return s.transactions.Transact(ctx, tx)
}
