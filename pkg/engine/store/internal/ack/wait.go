package ack

import (
	"context"
	"errors"
	"hash/maphash"
	"slices"
	"time"

	"github.com/belfry-mq/belfry/pkg/engine/batch"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/groupcommit"
	"github.com/belfry-mq/belfry/pkg/postgres"
)

const (
	// waitTurn is the time that a call waits for a cursor before its connection serves other waiting
	// calls. With turns of 250 ms, one connection serves eight cursors within Patience.
	waitTurn = 250 * time.Millisecond
	// At most maxWaitingFlushes connections wait for cursors, and at most a fraction 1/waitingShare
	// of the pool. The other connections serve other callers.
	maxWaitingFlushes, waitingShare = 4, 4
)

// contendedCall is a call that waits for a contended cursor. It has left its flush and uses no lock
// stripes of the partitions.
type contendedCall struct {
	// acks are applied after the wait. It is nil for a transaction, which applies its acks itself.
	acks *Call
	// cursor is the cursor that the call waits for. until is the end of the wait.
	cursor Cursor
	until  time.Time
}

// cursorSeed is the seed of the hash that gives a cursor its lock stripe.
var cursorSeed = maphash.MakeSeed()

func stripeOf(cursor Cursor) batch.LockStripe {
	return batch.LockStripeOf(int64(maphash.Comparable(cursorSeed, cursor)))
}

// stripes returns the lock stripes of the cursors. They are not the stripes of the partitions,
// because calls of different groups must not wait for each other.
func (c *contendedCall) stripes() []batch.LockStripe {
	stripes := []batch.LockStripe{stripeOf(c.cursor)}
	if c.acks != nil {
		for cursor := range c.acks.cursors {
			stripes = append(stripes, stripeOf(cursor))
		}
	}
	slices.Sort(stripes)
	return slices.Compact(stripes)
}

// newWaiting returns the manager of calls that wait for contended cursors. A flush holds only calls
// with exactly the same cursors, so no other call waits with them. Only one connection waits for the
// many calls of one cursor. A flush uses its connection for about waitTurn at most. Further calls
// wait in the queue of the manager, because most cursors are free again soon. If the time of a call
// ends in this queue, the call gets the error of gaveUp.
func (a *Acker) newWaiting(cfg batch.Config, metrics *groupcommit.Metrics) *batch.Manager[*contendedCall] {
	cfg.MaxWait, cfg.ConcurrentSize = 0, 1
	cfg.MaxFlushes = max(1, min(maxWaitingFlushes, int(a.Pool.Config().MaxConns)/waitingShare))
	m := groupcommit.NewManager(metrics, "held", cfg, a.flushWaiting)
	m.SameStripesOnly()
	return m
}

// WaitForCursor waits until the cursor of contended is free, and holds no lock meanwhile. It
// returns CodeUnavailable if the deadline passes or ctx ends first.
func (a *Acker) WaitForCursor(ctx context.Context, contended *ContendedError, deadline time.Time) error {
	return a.wait(ctx, &contendedCall{until: deadline}, contended)
}

// wait applies the acks of c, or only waits for its cursor. It returns the error of gaveUp when
// c.until or ctx ends first.
func (a *Acker) wait(ctx context.Context, c *contendedCall, contended *ContendedError) error {
	ctx, cancel := context.WithDeadline(ctx, c.until)
	defer cancel()
	c.until, _ = ctx.Deadline()
	size := 1
	if c.acks != nil {
		size = len(c.acks.Items)
	}
	for {
		if !time.Now().Before(c.until) {
			return gaveUp(contended)
		}
		if contended.Cursor == (Cursor{}) {
			return nil // only a transaction gets here: its cursors are free now
		}
		c.cursor = contended.Cursor
		err := a.waiting.Do(ctx, c, c.stripes(), size)
		if errors.Is(err, batch.ErrWithdrawn) {
			return gaveUp(contended)
		}
		still := ContendedIn(err)
		if still == nil {
			return err
		}
		contended = still
	}
}

// flushWaiting is one turn of calls that have the same cursors. It waits for one cursor and holds
// no other cursor meanwhile, so a call with several partitions blocks no session in its other
// partitions. Then it applies the calls without a contended cursor. The other calls return for
// another turn.
func (a *Acker) flushWaiting(ctx context.Context, calls []*contendedCall) ([]error, error) {
	ctx, cancel := a.Pool.Bounded(ctx)
	defer cancel()
	conn, err := a.Pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	cursor := calls[0].cursor
	how := lockOptions{waitForCursor: &cursor, patience: waitTurn}
	var acks []*Call
	for _, c := range calls {
		how.patience = min(how.patience, time.Until(c.until))
		if c.acks != nil {
			acks = append(acks, c.acks)
		}
	}
	contended, err := a.applyFree(ctx, conn, NewFlush(acks), how)
	timeout := postgres.SQLState(err) == postgres.LockTimeout
	switch {
	case timeout:
		a.contended.learn(nil, []Cursor{cursor})
	case err != nil:
		return nil, err
	}
	each := make([]error, len(calls))
	for i, c := range calls {
		if timeout {
			each[i] = &ContendedError{Cursor: c.cursor, Cause: err}
		} else if still := contended[c.acks]; still != nil {
			each[i] = still
		}
	}
	return each, nil
}
