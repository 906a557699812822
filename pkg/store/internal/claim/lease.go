package claim

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/pkg/store/internal/wake"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlLeaseExtend    = sql.Query("store/lease_extend")
	sqlUnconsume      = sql.Query("store/unconsume")
	sqlRedriveRestore = sql.Query("store/redrive_restore")
)

// Extend prolongs a lease; see Store.Extend.
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

// Release gives back a lease; see Store.Release.
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

// giveBack undoes a claim whose messages cannot be delivered.
func (c *Claimer) giveBack(ctx context.Context, one *call) error {
	d, group := &one.delivery, one.target.Group
	if !d.LeaseID.IsZero() {
		return c.Release(ctx, d.LeaseID)
	}
	// By partition, what was consumed from its log, with the failures and attempts of the first message.
	var partitions, first, last, counts []int64
	var heads []string
	var redriven []int64
	var redrives []string
	messages, of := d.Messages, one.partitionOf
	for _, p := range one.partitions {
		n := 0
		for n < len(of) && of[n] == p.id {
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
		messages, of = messages[n:], of[n:]
	}
	defer c.Floors.Forget(group)
	if err := c.undo(ctx, sqlUnconsume, group, partitions, first, last, counts, heads); err != nil {
		return fmt.Errorf("undoing the consumption of group %d in %d partitions: %w", group, len(partitions), err)
	}
	if len(redriven) == 0 {
		return nil
	}
	if err := c.undo(ctx, sqlRedriveRestore, group, redriven, redrives); err != nil {
		return fmt.Errorf("undoing the redelivery to group %d in %d partitions: %w", group, len(redriven), err)
	}
	return nil
}

// undo runs a statement that makes cursors due again, and announces them: another instance may be
// able to open the messages.
func (c *Claimer) undo(ctx context.Context, statement string, args ...any) error {
	ready, _, err := wake.ReadReady(c.Pool.Query(ctx, statement, args...))
	c.Waker.Announce(ready)
	return err
}

// maxOrphans is how many leases wait to be released. A lease beyond it expires by itself.
const maxOrphans = 1000

// orphan notes the leases of calls that ended with err. taken says that the leases were taken for
// certain; otherwise they were taken perhaps, and only if the connection was lost.
func (c *Claimer) orphan(err error, taken bool, calls ...*call) {
	for _, one := range calls {
		one.memory.free()
	}
	if taken {
		c.Pool.SignalLoss() // makes Run release them although perhaps no connection broke
	} else if !postgres.ConnectionLost(err) {
		return
	}
	for _, one := range calls {
		if one.delivery.LeaseID.IsZero() {
			continue
		}
		select {
		case c.orphans <- one.delivery.LeaseID:
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
				c.Log.Warn("The lease of a lost claim could not be released. It will expire.", zap.Stringer("lease_id", id), zap.Error(err))
			}
		default:
			return
		}
	}
}
