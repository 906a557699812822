package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/belfry-mq/belfry/pkg/engine/store/internal/push"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/quota"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var sqlNotify = sql.Query("engine/store/notify")

// Pop claims messages without waiting for new messages. It returns a Delivery without messages if
// no message can be delivered (I8). A queue or partition that does not exist counts as empty.
// Delivery.Target has the ids that Pop claimed from. Pop ignores req.Wait.
//
// Errors: queue.ErrJoining if Pop found no message, and after a second the group still lacks cursors in
// some partitions (it joins the queue). CodeUnavailable: a lease may have been taken; Run releases the
// lease, or the lease expires.
func (s *Store) Pop(ctx context.Context, req *queue.PopRequest) (queue.Delivery, error) {
	return s.claims.Pop(ctx, req)
}

// Claim makes the claims of one round of the dispatcher in one round trip, each with its own lease.
// The deliveries are in the order of the assignments. A delivery has no messages if another consumer
// took the partition, or if the group does not exist any more.
//
// If a payload cannot be decrypted, Claim undoes the claim, and its delivery has Undeliverable. The
// partition is due again after a minute. If Postgres cannot read a message, all claims of the round fail.
// If the round has only one claim, there are two cases:
//
//   - The claim names a partition. Claim repeats it with smaller batches. If a batch of one message fails
//     too, Claim makes the partition due again after a minute.
//   - The claim names no partition. Claim does not fail. The delivery is Contested, and a Pop then skips the
//     partition with the message.
//
// Errors: CodeUnavailable: leases may have been taken; Run releases the leases, or they expire.
func (s *Store) Claim(ctx context.Context, assignments []queue.Assignment) ([]queue.Delivery, error) {
	return s.claims.Round(ctx, assignments)
}

// Preflight probes for many waiting pops with one read-only query. The results are in the order of
// the probes. Postgres cancels the query after limit.
//
// Errors: CodeUnavailable, also if the query took longer than limit (SQLSTATE 57014).
func (s *Store) Preflight(ctx context.Context, probes []queue.Probe, limit time.Duration) ([]queue.ProbeResult, error) {
	return s.claims.Preflight(ctx, probes, limit)
}

// Resolve returns the ids that a pop claims from, and registers its consumer group if it is new. ok
// is false if the queue or the requested partition does not exist. joining is true if the group still
// lacks cursors in some partitions. Resolve makes a query only if the ids are not cached. Errors:
// CodeInvalid if the database refuses a name, CodeUnavailable.
func (s *Store) Resolve(ctx context.Context, req *queue.PopRequest) (target queue.Target, joining, ok bool, err error) {
	ctx, cancel := s.pool.Bounded(ctx)
	defer cancel()
	found, ok, err := s.names.Group(ctx, req)
	return found.Target, found.Joining, ok, postgres.Wrap(err)
}

// Find does the work of Resolve, but registers no group. registered is false if the group does not
// exist, or if it still joins the queue. In both cases a pop must come before a Preflight.
func (s *Store) Find(ctx context.Context, req *queue.PopRequest) (target queue.Target, registered, ok bool, err error) {
	ctx, cancel := s.pool.Bounded(ctx)
	defer cancel()
	found, registered, ok, err := s.names.FindGroup(ctx, req)
	return found.Target, registered && !found.Joining, ok, postgres.Wrap(err)
}

// GroupsOf returns the ids of the groups of a queue for which requests may wait on this instance: the
// groups that it has looked up in this epoch.
func (s *Store) GroupsOf(queueKey int64) []int64 { return s.names.GroupsOf(queueKey) }

// QueueOf returns the id of the queue of a partition, if the partition is cached. A push or an ack caches a
// partition.
func (s *Store) QueueOf(partition int64) (queueKey int64, ok bool) { return s.names.QueueOf(partition) }

// Forget removes the cached target of req if it equals deleted, a target that does not exist any more.
func (s *Store) Forget(req *queue.PopRequest, deleted queue.Target) {
	s.names.ForgetGroup(req, deleted)
}

// Extend extends every live lease with the given id to now + d and returns the earliest expiry.
// Errors: CodeNotFound for an unknown lease, CodeLeaseGone for an expired lease, CodeUnavailable.
func (s *Store) Extend(ctx context.Context, lease queue.ID, d time.Duration) (time.Time, error) {
	return s.claims.Extend(ctx, lease, d)
}

// Release ends a lease whose delivery did not reach its client. The messages can be popped again at
// once, and the delivery does not count as an attempt. Releasing a lease that does not exist does
// nothing. Errors: CodeUnavailable.
func (s *Store) Release(ctx context.Context, lease queue.ID) error {
	return s.claims.Release(ctx, lease)
}

// Settle clears ready_at of the cursors of a group in partitions, if no message is left. It skips cursors
// that another session has locked. It blocks for one or two statements, each bounded by the database
// timeout. It logs errors.
func (s *Store) Settle(ctx context.Context, group int64, partitions []int64) {
	s.waker.SettleNow(ctx, group, partitions)
}

// Tell notifies the SQL sessions that listen on channel (belfry.await). It blocks for one statement,
// bounded by the database timeout. Errors: CodeUnavailable; the sessions may have been notified
// nevertheless.
func (s *Store) Tell(ctx context.Context, channel string) error {
	ctx, cancel := s.pool.Bounded(ctx)
	defer cancel()
	if _, err := s.pool.Exec(ctx, sqlNotify, channel); err != nil {
		return fmt.Errorf("notifying channel %s: %w", channel, postgres.Wrap(err))
	}
	return nil
}

var sqlQueueDepth = sql.Query("engine/store/queue_depth")

// Push stores items in one transaction, which it may share with other pushes. After the COMMIT it
// returns the results in the order of the items. Push creates queues and partitions that do not
// exist.
//
// Errors: CodeInvalid if the database refuses a value. CodeUnavailable if the database cannot be
// reached; then all items or no items are stored, and a repetition with the same transaction ids is
// safe. CodeOverloaded: no item was stored. CodeQueueFull: no item was stored, because a queue has
// reached its maxSize.
func (s *Store) Push(ctx context.Context, items []queue.PushItem) ([]queue.PushResult, error) {
	return s.pushes.Push(ctx, items)
}

// Sequence moves rows of the inbox into their partitions, in the given order. ids are the ids of the
// rows. items are their messages. One transaction deletes the rows and stores the messages, so each
// row is stored once, even if several sequencers run or a connection breaks. The transaction runs on
// conn and shares no commit with pushes, so that it ends with the session of conn.
//
// A result with Refused means that the row was not moved and is still in the inbox. After an error, all
// rows are still in the inbox. Errors are the errors of Push, and the SQLSTATE postgres.InboxRowTaken if a
// row is not in the inbox any more.
func (s *Store) Sequence(ctx context.Context, conn *pgxpool.Conn, ids []int64, items []queue.PushItem) ([]queue.SequenceResult, error) {
	return s.pushes.Sequence(ctx, conn, push.Inbox{IDs: ids, Items: items})
}

// depthOf returns the function that measures queues with a maxSize, within the request timeout.
func depthOf(pool *postgres.Pool) quota.DepthFunc {
	return func(ctx context.Context, queueKey int64) (d quota.Depth, err error) {
		bounded, cancel := pool.Bounded(ctx)
		defer cancel()
		defer context.AfterFunc(ctx, cancel)() // a cancel closes the connection, but this query only reads, so nothing is lost
		err = pool.QueryRow(bounded, sqlQueueDepth, queueKey).Scan(&d.Limit, &d.Waiting, &d.Unread)
		if postgres.IsNoRows(err) {
			return quota.Depth{}, nil
		}
		return d, err
	}
}

// Ack applies acknowledgments in one transaction, which it may share with other calls. After the
// COMMIT it returns the results in the order of the items. The result of an ack that cannot be
// applied has the reason. Such an ack does not affect other acks.
//
// If a SQL consumer holds a cursor of the call, the call waits up to 2 s for the cursor. Other
// calls do not wait with it.
//
// Errors: CodeUnavailable; the acks may have been applied, and sending them again is safe.
// CodeOverloaded: no ack was applied.
func (s *Store) Ack(ctx context.Context, items []queue.AckItem) ([]queue.AckResult, error) {
	return s.acks.Ack(ctx, items)
}

// Transact applies the operations of tx together or not at all, in a separate database transaction,
// and returns after the COMMIT. If the result is not Applied, it has the reason, and no operation was
// applied. The queues and partitions of its pushes may have been created nevertheless.
//
// If a partition already has the transaction id of a push, the transaction is refused. Acks follow the
// rules of Ack. Transact checks the acks of one cursor together and in the order of the log. It compares
// them with the lease that the cursor had before the transaction. If Ack would not apply an ack, the transaction is refused. An ack with
// status `failed` counts a failure, and the message is redelivered while retries are left. AckDead
// makes it a dead letter at once.
//
// Each of RequiredLeases must be live. For an ack without a lease id, the live lease of its cursor
// must be a required lease. Transact ignores empty ids in RequiredLeases (autoAck deliveries have no
// lease). Without required leases, this condition does not apply. All conditions are checked under the locks that the commit releases.
//
// If a SQL consumer holds a cursor, Transact waits for the cursor like Ack.
//
// Errors are the errors of Push, including CodeQueueFull. After CodeUnavailable the transaction may have
// been applied. If the client sends the same operations again, to any instance, they are not applied twice,
// because message ids contain a fingerprint of the whole transaction. A repetition that finds its own
// messages gets the answer of the first attempt, with two exceptions: the message id of a push without
// transaction id, and whether a failed ack made a dead letter. Transact recognizes a repetition only if at
// least one push has a transaction id from the client. In a repetition without pushes, Transact refuses an
// ack, as Ack does, if the first attempt ended the lease of the ack.
func (s *Store) Transact(ctx context.Context, tx *queue.Transaction) (queue.TransactionResult, error) {
	return s.transactions.Transact(ctx, tx)
}

func (s *Store) handoffsOf(queueName, partition string) []queue.Handoff {
	if s.handoffs == nil {
		return nil
	}
	return s.handoffs.Handoffs(queueName, partition)
}

// QueuesOf returns the queue of each partition that exists, for the check of grants. allowed reports whether the sender may
// use the partition ids[at], which is in the given queue. The cache is used only for a queue that the sender may use.
// All other partitions are looked up in the database, so the duration does not reveal whether a refused partition
// exists. Errors: CodeUnavailable.
func (s *Store) QueuesOf(ctx context.Context, ids []queue.ID, allowed func(at int, queueName string) bool) (map[queue.ID]string, error) {
	queues, err := s.names.QueuesOf(ctx, ids, allowed)
	return queues, postgres.Wrap(err)
}

// OnReady lowers the scan floors of the groups. If the announcement comes from a SQL consumer,
// OnReady queues the cursors for a settle. A SQL session announces a cursor without its ready_at if that
// instant is less than ten seconds ahead, because it may pass before the commit. Then OnReady drops the
// floors of the group.
func (s *Store) OnReady(ready []queue.Ready, origin events.Origin) {
	for _, r := range ready {
		if r.Partition != queue.Room {
			s.floors.Ready(r)
		}
	}
	if origin != events.SQL {
		return
	}
	for _, r := range ready {
		if r.At.IsZero() {
			s.floors.Forget(r.Group)
		}
	}
	s.waker.SettleLater(ready)
}

// OnResync drops all scan floors.
func (s *Store) OnResync(string, events.Origin) { s.floors.ForgetAll() }

// OnLeaseChanged drops the delivery of a lease from the cache.
func (s *Store) OnLeaseChanged(lease queue.ID) { s.delivered.Forget(lease) }
