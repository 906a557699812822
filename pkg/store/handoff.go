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
}

// handoffs returns the claims to make with a push to lanes. A push to several is
// left to the rounds: they look for all of them with one query.
func (s *Store) handoffs(lanes []laneName) *handoffs {
	h := &handoffs{s: s}
	if len(lanes) == 1 {
		h.list = s.announcer.Handoffs(lanes[0].queue, lanes[0].partition)
	}
	return h
}

// queue adds the wake of partitions to b, and the claims after it. The wake has
// a transaction of its own then: a claim that fails does not undo it.
func (h *handoffs) queue(b *pgx.Batch, partitions []int64) {
	if len(h.list) == 0 {
		b.Queue(sqlWake, partitions)
		return
	}
	b.Queue("BEGIN")
	b.Queue(sqlWake, partitions)
	b.Queue("COMMIT")
	for i := range h.list {
		c := newClaim(h.list[i].Request, queue.Target{Group: h.list[i].Group, Partition: h.list[i].Partition})
		h.claims = append(h.claims, c)
		b.Queue(sqlClaim, c.args()...)
	}
}

// read reads what queue added. The commit before it stands whatever becomes of
// it, so its failure is logged and left to the healer and to the announcement.
func (h *handoffs) read(results pgx.BatchResults, partitions int) []queue.Ready {
	if len(h.claims) == 0 {
		return h.s.readWake(results, partitions)
	}
	begun := skip(results, "beginning a wake")
	ready := h.s.readWake(results, partitions)
	err := errors.Join(begun, skip(results, "committing a wake"))
	for _, c := range h.claims {
		rows, queried := results.Query()
		if queried == nil {
			queried = h.s.readClaim(rows, c)
		}
		if queried != nil {
			c.delivery.Messages = nil
			err = errors.Join(err, queried)
		}
	}
	if err != nil {
		h.s.log.Warn("a push could not hand its messages over; they are announced instead", zap.Error(err))
	}
	return ready
}

// conclude hands over what was claimed, and releases what nobody waits for any
// more. It must be called once, whatever happened before.
func (h *handoffs) conclude(ctx context.Context) {
	var err error
	if len(h.claims) > 0 {
		err = h.s.finishClaims(ctx, h.claims)
	}
	for i, handoff := range h.list {
		var d queue.Delivery
		if i < len(h.claims) && err == nil {
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
}
