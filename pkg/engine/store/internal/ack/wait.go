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
	// waitTurn is how long a call waits for a cursor before other waiting calls have their turn. With
	// turns of 250 ms, one connection serves eight cursors within Patience.
	waitTurn = 250 * time.Millisecond
	// At most maxWaitingFlushes connections wait for cursors, and at most one of waitingShare
	// connections of the pool. The rest serves other callers.
	maxWaitingFlushes, waitingShare = 4, 4
)

// contendedCall is a call that waits for a contended cursor. It has left its flush and the lock
// stripes there.
type contendedCall struct {
	// acks are applied after the wait; nil for a transaction, which commits by itself.
	acks *Call
	// cursor is what the call waits for, and until bounds the wait.
	cursor Cursor
	until  time.Time
}

// cursorSeed makes lock stripes of cursors.
var cursorSeed = maphash.MakeSeed()

func stripeOf(cursor Cursor) batch.LockStripe {
	return batch.LockStripeOf(int64(maphash.Comparable(cursorSeed, cursor)))
}

// stripes are the lock stripes of the cursors, not of the partitions: calls of different groups do
// not wait for each other.
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
// of the very same cursors, so no other call waits with them, and for many calls of one cursor only
// one connection waits. There are few flushes at a time, and each holds its connection for waitTurn
// at most. Further calls wait in line; a call whose patience ends there is answered gaveUp. They are
// not refused at once because most cursors are free again soon.
func (a *Acker) newWaiting(cfg batch.Config, metrics *groupcommit.Metrics) *batch.Manager[*contendedCall] {
	cfg.MaxWait, cfg.ConcurrentSize = 0, 1
	cfg.MaxFlushes = max(1, min(maxWaitingFlushes, int(a.Pool.Config().MaxConns)/waitingShare))
	m := groupcommit.NewManager(metrics, "held", cfg, a.flushWaiting)
	m.SameStripesOnly()
	return m
}

// WaitForCursor waits, holding nothing, until the cursor of contended is free. The error is
// CodeUnavailable when until or the end of ctx comes first.
func (a *Acker) WaitForCursor(ctx context.Context, contended *ContendedError, until time.Time) error {
	return a.wait(ctx, &contendedCall{until: until}, contended)
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
			return nil // a transaction, and its cursors are free now
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
// none meanwhile, so a call of several partitions blocks nobody in the others. Then it applies the
// calls that it can. The others return for another turn.
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
