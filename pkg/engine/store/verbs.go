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

// Pop looks once and returns what it claimed, or a Delivery without messages when nothing was
// poppable (I8). A queue or partition that does not exist is empty. Delivery.Target says what was
// looked at. Pop ignores req.Wait.
//
// Errors: queue.ErrJoining when nothing was found and the group still joins the queue after a second;
// CodeUnavailable: if a lease was taken nevertheless, Run releases it, or it expires.
func (s *Store) Pop(ctx context.Context, req *queue.PopRequest) (queue.Delivery, error) {
	return s.claims.Pop(ctx, req)
}

// Claim makes the claims of one round of the dispatcher in one round trip, each with its own lease.
// The deliveries are in the order of the assignments. A delivery without messages lost its partition
// to another consumer, or its group does not exist any more.
//
// A claim with a payload that cannot be decrypted is given back, and its partition is due later. Its
// delivery has Undeliverable. If Postgres cannot read a message, all claims fail, and the partition of a
// single claim is due later. If that claim was for any partition, it does not fail: its delivery is
// Contested, and a Pop passes over the partition.
//
// Errors: CodeUnavailable: if leases were taken nevertheless, Run releases them, or they expire.
func (s *Store) Claim(ctx context.Context, assignments []queue.Assignment) ([]queue.Delivery, error) {
	return s.claims.Round(ctx, assignments)
}

// Preflight looks for many waiting pops with one read-only query. The results are in the order of
// the probes. limit bounds the query on the server.
//
// Errors: CodeUnavailable, also when the query took longer than limit (SQLSTATE 57014).
func (s *Store) Preflight(ctx context.Context, probes []queue.Probe, limit time.Duration) ([]queue.ProbeResult, error) {
	return s.claims.Preflight(ctx, probes, limit)
}

// Resolve returns the ids that a pop claims from, and registers its consumer group if it is new. ok
// is false when the queue, or the requested partition, does not exist. It makes a query only the
// first time. Errors: CodeInvalid when the database refuses a name, CodeUnavailable.
func (s *Store) Resolve(ctx context.Context, req *queue.PopRequest) (target queue.Target, ok bool, err error) {
	ctx, cancel := s.pool.Bounded(ctx)
	defer cancel()
	found, ok, err := s.names.Group(ctx, req)
	return found.Target, ok, postgres.Wrap(err)
}

// Find is Resolve without the registration: registered is false when the group does not exist.
func (s *Store) Find(ctx context.Context, req *queue.PopRequest) (target queue.Target, registered, ok bool, err error) {
	ctx, cancel := s.pool.Bounded(ctx)
	defer cancel()
	found, registered, ok, err := s.names.FindGroup(ctx, req)
	return found.Target, registered, ok, postgres.Wrap(err)
}

// GroupsOf returns the ids of the groups of a queue for which requests may wait here: the groups that were
// looked up since the epoch began.
func (s *Store) GroupsOf(queueKey int64) []int64 { return s.names.GroupsOf(queueKey) }

// QueueOf returns the id of the queue of a partition, if the partition is remembered, as after a push or an
// ack.
func (s *Store) QueueOf(partition int64) (queueKey int64, ok bool) { return s.names.QueueOf(partition) }

// Forget drops the target that Resolve remembers for req, if it is still gone, which does not exist any
// more.
func (s *Store) Forget(req *queue.PopRequest, gone queue.Target) { s.names.ForgetGroup(req, gone) }

// Extend prolongs every live lease with the given id to now + d and returns the earliest expiry.
// Errors: CodeNotFound for an unknown lease, CodeLeaseGone for an expired one, CodeUnavailable.
func (s *Store) Extend(ctx context.Context, lease queue.ID, d time.Duration) (time.Time, error) {
	return s.claims.Extend(ctx, lease, d)
}

// Release gives back a lease whose delivery did not reach its client: the messages are poppable
// again at once, and no attempt is counted. Releasing a lease that does not exist does nothing.
// Errors: CodeUnavailable.
func (s *Store) Release(ctx context.Context, lease queue.ID) error {
	return s.claims.Release(ctx, lease)
}

// Settle corrects the cursors of a group in these partitions that are marked ready although nothing is left.
// It skips cursors that another session has locked. It blocks for one or two statements, each bounded by
// the database timeout. A failure is logged.
func (s *Store) Settle(ctx context.Context, group int64, partitions []int64) {
	s.waker.SettleNow(ctx, group, partitions)
}

// Tell notifies the SQL sessions that listen on channel (belfry.await). It blocks for one statement,
// bounded by the database timeout. Errors: CodeUnavailable; the sessions were notified or not.
func (s *Store) Tell(ctx context.Context, channel string) error {
	ctx, cancel := s.pool.Bounded(ctx)
	defer cancel()
	if _, err := s.pool.Exec(ctx, sqlNotify, channel); err != nil {
		return fmt.Errorf("notifying channel %s: %w", channel, postgres.Wrap(err))
	}
	return nil
}

var sqlQueueDepth = sql.Query("engine/store/queue_depth")

// Push stores items in one transaction, which it may share with other pushes, and returns their
// results in the same order, after the COMMIT. Queues and partitions that do not exist are created.
//
// Errors: CodeInvalid when the database refuses a value. CodeUnavailable when the database cannot be
// reached; then either everything or nothing was stored, and a repetition with the same transaction
// ids is safe. CodeOverloaded: nothing was stored. CodeQueueFull: nothing was stored, because a queue
// has reached its maxSize.
func (s *Store) Push(ctx context.Context, items []queue.PushItem) ([]queue.PushResult, error) {
	return s.pushes.Push(ctx, items)
}

// Sequence moves rows of the inbox into their partitions, in the given order. ids are the rows and
// items what they hold. One transaction removes the rows and stores the messages, so each row is
// stored once, also when several sequencers try or a connection breaks. It runs on conn and not with
// other pushes, so that it ends with the session of conn.
//
// A row that is refused because its queue is full stays in the inbox. After an error all rows stay.
// Errors are the errors of Push, and the SQLSTATE postgres.InboxRowTaken: a row is not in the inbox any more.
func (s *Store) Sequence(ctx context.Context, conn *pgxpool.Conn, ids []int64, items []queue.PushItem) ([]queue.SequenceResult, error) {
	return s.pushes.Sequence(ctx, conn, push.Inbox{IDs: ids, Items: items})
}

// depthOf returns the function that measures queues with a maxSize, within the request timeout.
func depthOf(pool *postgres.Pool) quota.DepthFunc {
	return func(ctx context.Context, queueKey int64) (d quota.Depth, err error) {
		bounded, cancel := pool.Bounded(ctx)
		defer cancel()
		defer context.AfterFunc(ctx, cancel)() // nothing is lost with the connection
		err = pool.QueryRow(bounded, sqlQueueDepth, queueKey).Scan(&d.Limit, &d.Waiting, &d.Unread)
		if postgres.IsNoRows(err) {
			return quota.Depth{}, nil
		}
		return d, err
	}
}

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

func (s *Store) handoffsOf(queueName, partition string) []queue.Handoff {
	if s.handoffs == nil {
		return nil
	}
	return s.handoffs.Handoffs(queueName, partition)
}

// QueuesOf returns the queue of each partition that exists, for the check of grants. may reports whether the sender may
// use the partition ids[at], which is in the given queue. A remembered queue is used only if the sender may use it. All
// other partitions are looked up, so the duration does not reveal whether a refused partition exists. Errors:
// CodeUnavailable.
func (s *Store) QueuesOf(ctx context.Context, ids []queue.ID, may func(at int, queueName string) bool) (map[queue.ID]string, error) {
	queues, err := s.names.QueuesOf(ctx, ids, may)
	return queues, postgres.Wrap(err)
}

// OnReady lowers the scan floors of the groups. Cursors that SQL consumers left are queued for
// settling. A SQL consumer whose transaction may have been long announces a cursor without the
// instant since when it is ready: then the floor of the group is dropped.
func (s *Store) OnReady(ready []queue.Ready, from events.Origin) {
	s.floors.Ready(ready...)
	if from != events.SQL {
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

// OnLeaseChanged forgets the delivery of a lease.
func (s *Store) OnLeaseChanged(lease queue.ID) { s.delivered.Forget(lease) }
