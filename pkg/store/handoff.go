package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// handoffs are the claims that ride with a push.
type handoffs struct {
	s      *Store
	list   []queue.Handoff
	claims []*claim
	// answered: what the claims found was read.
	answered bool
	// failed is why the claims undid the wake.
	failed error
}

// newHandoffs returns the claims to make with a flush. One to several partitions is
// left to the rounds: they look for all of them with one query.
func (s *Store) newHandoffs(f *pushFlush) *handoffs {
	h := &handoffs{s: s}
	if len(f.partitions) == 1 {
		only := f.calls[0].opened[0]
		h.list = s.handoffs.Handoffs(only.Queue, only.Name)
	}
	return h
}

// queue adds the wake of partitions to b, and the claims after it, all in one
// transaction: none of it waits for the disk.
func (h *handoffs) queue(b *pgx.Batch, partitions []int64) {
	b.Queue(sqlWake, partitions)
	for i := range h.list {
		c := newClaim(h.list[i].Request, h.list[i].Target)
		h.claims = append(h.claims, c)
		h.s.queueClaim(b, c)
	}
}

// read reads what queue added. The commit before it stands whatever becomes of
// it, so its failure is logged, and the wake is left to conclude.
func (h *handoffs) read(results pgx.BatchResults, partitions int) []queue.Ready {
	if len(h.claims) == 0 {
		return h.s.readWake(results, partitions)
	}
	ready, err := readyResult(results, "waking")
	for _, c := range h.claims {
		rows, queried := results.Query()
		if queried == nil {
			queried = h.s.readClaim(rows, c)
		}
		err = errors.Join(err, queried)
	}
	if err != nil {
		h.s.log.Warn("a push could not hand its messages over; they are announced instead", zap.Error(err))
		h.failed = err
		return nil
	}
	h.answered = true
	return ready
}

// conclude hands over what was claimed, releases what nobody waits for any more,
// and wakes partitions when that has not happened yet. It must be called once,
// whatever happened before; sent is how the sending ended.
func (h *handoffs) conclude(ctx context.Context, partitions []int64, sent error) {
	var err error
	if h.answered {
		err = h.s.finishClaims(ctx, h.claims)
	}
	switch {
	case err != nil:
		h.s.unanswered(err, true, h.claims...)
	case !h.answered:
		h.s.unanswered(errors.Join(sent, h.failed), false, h.claims...)
	}
	for i, handoff := range h.list {
		var d queue.Delivery
		if h.answered && err == nil {
			d = h.claims[i].delivery
		}
		if handoff.Take(d) || len(d.Messages) == 0 {
			continue
		}
		if released := h.s.Release(ctx, d.LeaseID); released != nil {
			err = errors.Join(err, fmt.Errorf("the lease will expire: %w", released))
		}
	}
	if err != nil {
		h.s.log.Warn("handing the messages of a push over failed", zap.Error(err))
	}
	if h.failed != nil {
		h.s.wake(ctx, partitions)
	}
}
