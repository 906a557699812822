package store

import (
	"context"
	"errors"
	"hash/maphash"
	"slices"
	"time"

	"github.com/belfry-mq/belfry/pkg/batch"
	"github.com/belfry-mq/belfry/pkg/postgres"
)

const (
	// heldTurn is how long a call waits for a cursor until others that wait have their
	// turn. In ackPatience eight cursors have theirs on each connection.
	heldTurn = 250 * time.Millisecond
	// maxHeldTurns and heldShare bound the connections on which calls wait for cursors:
	// so many, and one of so many that the pool has. The rest is for strangers.
	maxHeldTurns, heldShare = 4, 4
)

// heldCall is a call that waits for a cursor which somebody holds. It has left the
// flush that it was in, and with it the lanes there.
type heldCall struct {
	// ack is what to apply then; nil: nothing, it is a transaction, which commits by
	// itself.
	ack *ack
	// cursor is what it waits for now, and until how long it does at most.
	cursor cursorName
	until  time.Time
}

// cursorSeed makes lanes of cursors.
var cursorSeed = maphash.MakeSeed()

func (n cursorName) lane() batch.LockStripe {
	return batch.LockStripeOf(int64(maphash.Comparable(cursorSeed, n)))
}

// lanes are those of its cursors, not of their partitions: who waits for one group
// has nothing to do with another one.
func (c *heldCall) lanes() []batch.LockStripe {
	lanes := []batch.LockStripe{c.cursor.lane()}
	if c.ack != nil {
		for _, item := range c.ack.found {
			lanes = append(lanes, c.ack.cursorOf(item).lane())
		}
	}
	slices.Sort(lanes)
	return slices.Compact(lanes)
}

// newHeld returns the manager of calls that wait for cursors by themselves. A flush
// holds those of the very same cursors and nobody else, so no stranger waits with
// them; what they gain from being together is that of many calls of one cursor only
// one flush waits. There are few flushes at a time, and each holds a connection for
// heldTurn at most. Beyond that calls stand in line, and are answered errHeld when
// they did not come to it within their patience: a refusal at once would hit those
// whose cursor is let go in a moment.
func (s *Store) newHeld(cfg batch.Config, metrics *Metrics) *batch.Manager[*heldCall] {
	cfg.MaxWait, cfg.ConcurrentSize = 0, 1
	cfg.MaxFlushes = max(1, min(maxHeldTurns, int(s.pool.Config().MaxConns)/heldShare))
	m := batch.New(cfg, s.flushHeld, judge, metrics.of("held"))
	m.SameStripesOnly()
	return m
}

// outwait applies the acks of c, or just waits for its cursor, by itself, after held.
// The answer is errHeld when c.until is over, or ctx ends, before it got them.
func (s *Store) outwait(ctx context.Context, c *heldCall, held *heldError) error {
	ctx, cancel := context.WithDeadline(ctx, c.until)
	defer cancel()
	c.until, _ = ctx.Deadline()
	size := 1
	if c.ack != nil {
		size = len(c.ack.items)
	}
	for {
		if !time.Now().Before(c.until) {
			return errHeld(held)
		}
		if held.cursor == (cursorName{}) {
			return nil // a transaction, and nobody holds it up any more
		}
		c.cursor = held.cursor
		err := s.held.Do(ctx, c, c.lanes(), size)
		if errors.Is(err, batch.ErrWithdrawn) {
			return errHeld(held)
		}
		still := heldIn(err)
		if still == nil {
			return err
		}
		held = still
	}
}

// flushHeld is one turn of calls that have the same cursors. It waits for one of
// them and holds none meanwhile: a call of several partitions is in nobody's way in
// the others. Then it applies what it can; who is held still comes again.
func (s *Store) flushHeld(ctx context.Context, calls []*heldCall) ([]error, error) {
	ctx, cancel := s.pool.Bounded(ctx)
	defer cancel()
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	await := calls[0].cursor
	how := freely{await: &await, patience: heldTurn}
	var acks []*ack
	for _, c := range calls {
		how.patience = min(how.patience, time.Until(c.until))
		if c.ack != nil {
			acks = append(acks, c.ack)
		}
	}
	held, err := s.applyFree(ctx, conn, newAckFlush(acks), how)
	timeout := postgres.SQLState(err) == postgres.LockTimeout
	switch {
	case timeout:
		s.heldCursors.learn(nil, []cursorName{await})
	case err != nil:
		return nil, err
	}
	each := make([]error, len(calls))
	for i, c := range calls {
		if timeout {
			each[i] = &heldError{cursor: c.cursor, waited: err}
		} else if h := held[c.ack]; h != nil {
			each[i] = h
		}
	}
	return each, nil
}
