package claim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/engine/store/internal/pipeline"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/wake"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlLeaseExtend    = sql.Query("engine/store/lease_extend")
	sqlUnconsume      = sql.Query("engine/store/unconsume")
	sqlRedriveRestore = sql.Query("engine/store/redrive_restore")
)

// Extend extends a lease; see Store.Extend.
func (c *Claimer) Extend(ctx context.Context, lease queue.ID, d time.Duration) (time.Time, error) {
	ctx, cancel := c.Pool.Bounded(ctx)
	defer cancel()
	var until pgtype.Timestamptz
	var known bool
	err := c.Pool.QueryRow(ctx, sqlLeaseExtend, [16]byte(lease), int64(d/time.Second)).Scan(&until, &known)
	switch {
	case err != nil:
		return time.Time{}, postgres.Wrap(fmt.Errorf("extending lease %s: %w", lease, err))
	case until.Valid:
		return until.Time, nil
	case known:
		return time.Time{}, &queue.Error{Code: queue.CodeLeaseGone, Message: "Lease already expired"}
	default:
		return time.Time{}, &queue.Error{Code: queue.CodeNotFound, Message: "Lease not found"}
	}
}

// Release ends a lease; see Store.Release.
func (c *Claimer) Release(ctx context.Context, lease queue.ID) error {
	ctx, cancel := c.Pool.Bounded(ctx)
	defer cancel()
	ready, notReady, err := wake.ReadReady(c.Pool.Query(ctx, sqlLeaseRelease, [16]byte(lease)))
	if err != nil {
		return postgres.Wrap(fmt.Errorf("releasing lease %s: %w", lease, err))
	}
	c.Waker.Announce(ready)
	c.Waker.Wake(ctx, notReady)
	return nil
}

// giveBack undoes a claim whose messages cannot be delivered. In the same transaction it makes the
// partitions in undecrypted due after undeliverableRetry. It announces the partitions that become ready.
func (c *Claimer) giveBack(ctx context.Context, call *claimCall) error {
	call.memory.free()
	b := &pgx.Batch{}
	if lease := call.delivery.LeaseID; !lease.IsZero() {
		b.Queue(sqlLeaseRelease, lease)
	} else {
		defer c.Floors.Forget(call.target.Group)
		queueUnconsume(b, call)
	}
	for _, p := range call.undecrypted {
		b.Queue(sqlPostpone, call.target.Group, p.Key, int64(undeliverableRetry/time.Second))
	}
	readyAt, needWake := map[int64]queue.Ready{}, []int64(nil)
	err := pipeline.On(c.Pool.Pool)(ctx, b, func(results pgx.BatchResults) error {
		for range b.Len() {
			ready, notReady, err := wake.ReadReady(results.Query())
			if err != nil {
				return err
			}
			needWake = append(needWake, notReady...)
			for _, r := range ready {
				readyAt[r.Partition] = r // the last statement decides
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.Waker.Announce(slices.Collect(maps.Values(readyAt)))
	c.Waker.Wake(ctx, needWake)
	return nil
}

// queueUnconsume adds the statements that undo an autoAck claim.
func queueUnconsume(b *pgx.Batch, call *claimCall) {
	group := call.target.Group
	// One element for each partition with messages consumed from its log. heads has the failures and attempts
	// of the first message.
	var partitions, first, last, counts []int64
	var heads []string
	var redriven []int64
	var redrives []string
	messages, partitionOf := call.delivery.Messages, call.partitionOf
	for _, p := range call.partitions {
		n := 0
		for n < len(partitionOf) && partitionOf[n] == p.id {
			n++
		}
		switch {
		case n == 0:
		case p.outcome == outcomeRedriven:
			redriven, redrives = append(redriven, p.id), append(redrives, string(p.undo))
		default:
			partitions, heads = append(partitions, p.id), append(heads, string(p.undo))
			first, last = append(first, messages[0].Seq), append(last, messages[n-1].Seq)
			counts = append(counts, int64(n))
		}
		messages, partitionOf = messages[n:], partitionOf[n:]
	}
	b.Queue(sqlUnconsume, group, pipeline.Array(partitions), pipeline.Array(first), pipeline.Array(last), pipeline.Array(counts), pipeline.Array(heads))
	if len(redriven) > 0 {
		b.Queue(sqlRedriveRestore, group, redriven, redrives)
	}
}

// maxOrphans bounds the number of leases that wait for ReleaseOrphans. Further leases are not
// released, but expire.
const maxOrphans = 1000

// orphan queues the leases of calls that ended with err, for ReleaseOrphans. taken is true if the claims were
// committed. If taken is false, the claims may be committed only if the connection was lost.
func (c *Claimer) orphan(err error, taken bool, calls ...*claimCall) {
	for _, call := range calls {
		call.memory.free()
	}
	if taken {
		c.Pool.SignalLoss() // makes Run release the leases even if no connection broke
	} else if !postgres.ConnectionLost(err) {
		return
	}
	for _, call := range calls {
		if call.delivery.LeaseID.IsZero() {
			continue
		}
		select {
		case c.orphans <- call.delivery.LeaseID:
		default: // maxOrphans
		}
	}
}

// ReleaseOrphans releases the leases of claims whose outcome is unknown. A failure is logged.
func (c *Claimer) ReleaseOrphans(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case id := <-c.orphans:
			if err := c.Release(ctx, id); err != nil {
				c.Log.Warn("the lease of a claim with a lost answer could not be released; it will expire", zap.Stringer("lease_id", id), zap.Error(err))
			}
		default:
			return
		}
	}
}
