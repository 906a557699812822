package store

import (
	"context"
	"fmt"
	"time"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var sqlNotify = sql.Query("engine/store/notify")

// Pop looks once and returns what it claimed, or a Delivery without messages when nothing was
// poppable (I8). A queue or partition that does not exist is empty. Delivery.Target says what was
// looked at. Pop ignores req.Wait.
//
// Errors: queue.ErrJoining when nothing was found and the group still joins the queue after a second;
// CodeUnavailable; a lease that was taken all the same is released by Run, or expires.
func (s *Store) Pop(ctx context.Context, req *queue.PopRequest) (queue.Delivery, error) {
	return s.claims.Pop(ctx, req)
}

// Claim makes the claims of one round of the dispatcher in one round trip, each with its own lease.
// The deliveries are in the order of the assignments. A delivery without messages lost its partition
// to another consumer, or its group does not exist any more. A delivery with a payload that cannot be
// opened is given back. It is marked contested and has the reason, and its partition is due later. The
// delivery of a single claim from any partition is also contested if Postgres cannot read a message; a
// Pop passes over its partition.
//
// Errors: CodeUnavailable; leases that were taken all the same are released by Run, or expire. If
// Postgres cannot read a message, all claims fail; the partition of a single claim is then due later.
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

// Forget drops what Resolve remembers of a pop, if that is still the target that does not exist any
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

// Settle settles those cursors of a group that nobody holds: cursors that are due although possibly
// empty. It blocks for one or two statements, each bounded by the database timeout. A failure is
// logged.
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
