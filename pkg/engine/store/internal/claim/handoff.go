package claim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/engine/store/internal/wake"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Handoff wakes the partitions of a push, and claims them in the same pipeline for requests that
// wait for messages. The wake and the claims are one transaction after the commit of the push. This
// transaction waits for the disk only if a claim has autoAck.
type Handoff struct {
	c          *Claimer
	partitions []int64
	waiting    []queue.Handoff
	calls      []*claimCall
	// answered is set when the results of the claims were read.
	answered bool
	// undone is the error of the claims, or nil. After the error, the wake was rolled back too.
	undone error
}

// NewHandoff returns the wake of partitions and the claims of the waiting requests.
func (c *Claimer) NewHandoff(partitions []int64, waiting []queue.Handoff) *Handoff {
	// The last claim decides whether the commit waits for the disk.
	slices.SortStableFunc(waiting, func(a, b queue.Handoff) int { return consumes(a.Request) - consumes(b.Request) })
	return &Handoff{c: c, partitions: partitions, waiting: waiting}
}

// consumes returns 1 if the request has autoAck, else 0.
func consumes(req *queue.PopRequest) int {
	if req.AutoAck {
		return 1
	}
	return 0
}

// Queue adds the wake and the claims to b.
func (h *Handoff) Queue(b *pgx.Batch) {
	wake.Queue(b, h.partitions)
	for i := range h.waiting {
		call := newCall(h.waiting[i].Request, h.waiting[i].Target)
		h.calls = append(h.calls, call)
		if h.c.reserve(call) {
			h.c.queue(b, call, len(h.waiting) == 1)
		}
	}
}

// Read reads the results of Queue and returns the pairs of group and partition that became ready.
// The push is already committed, so Read logs an error, and Conclude repeats the wake.
func (h *Handoff) Read(results pgx.BatchResults) []queue.Ready {
	if len(h.calls) == 0 {
		return h.c.Waker.Read(results, len(h.partitions))
	}
	ready, err := wake.ReadReadyResult(results, "waking")
	for _, call := range h.calls {
		if call.sent {
			err = errors.Join(err, h.c.readResult(results, call))
		}
	}
	if err != nil {
		h.c.Log.Warn("the claims of a handoff failed; the messages of the push will be announced instead", zap.Error(err))
		h.undone = err
		return nil
	}
	h.answered = true
	for _, call := range h.calls {
		ready = call.updateReady(ready)
	}
	return ready
}

// updateReady changes ready, the result of the wake, to the state after the claim. A claimed partition
// is due when its lease ends. After an autoAck claim it is due at once if messages are left, and
// otherwise not due.
func (call *claimCall) updateReady(ready []queue.Ready) []queue.Ready {
	for _, p := range call.partitions {
		at := slices.IndexFunc(ready, func(r queue.Ready) bool { return r.Group == call.target.Group && r.Partition == p.id })
		switch {
		case at < 0 || !p.delivered():
		case p.readyAt.IsZero():
			ready = slices.Delete(ready, at, at+1)
		default:
			ready[at].In, ready[at].At = p.readyAt.Sub(call.delivery.DatabaseNow), p.readyAt
		}
	}
	return ready
}

// waitError returns the error that ends the wait of a request without messages. Either the rights of its
// sender have ended, or its autoAck claim may have consumed messages that cannot be delivered. If waitError
// returns nil, the request continues to wait. failed is the error of all claims.
func (h *Handoff) waitError(call *claimCall, failed error) error {
	switch {
	case call.ended != nil:
		return call.ended
	case !call.req.AutoAck || !call.sent:
		return nil
	case failed != nil && (h.answered || postgres.ConnectionLost(failed)):
		return postgres.Wrap(fmt.Errorf("handing over consumed messages of queue %q: %w", call.req.Queue, failed))
	case call.memory.full:
		return queue.MemoryFull()
	default:
		return call.delivery.Undeliverable
	}
}

// Abandon calls Take without messages for each request for which Conclude did not call Take because of a
// panic. A request may block until its Take is called.
func (h *Handoff) Abandon() {
	for _, request := range h.waiting {
		request.Take(queue.Delivery{})
	}
	h.waiting = nil
}

// Conclude passes the claimed messages to the waiting requests. It undoes a claim whose request has
// stopped waiting. It repeats the wake if the wake was rolled back. Call it once, also if the
// pipeline failed. sent is the error of the pipeline.
func (h *Handoff) Conclude(ctx context.Context, sent error) {
	var err error
	var needWake []int64
	if h.answered {
		needWake = h.c.noteAll(h.calls)
		err = h.c.complete(ctx, h.calls)
	}
	switch {
	case err != nil:
		h.c.orphan(err, true, h.calls...)
	case !h.answered:
		h.c.orphan(errors.Join(sent, h.undone), false, h.calls...)
	}
	waiting := h.waiting
	for i, request := range waiting {
		h.waiting = waiting[i+1:]
		var d queue.Delivery
		switch {
		case !h.answered || err != nil:
		case request.Request.AutoAck && postgres.IsUnconfirmed(sent):
			h.c.giveBackUnsafe(ctx, h.calls[i])
		default:
			d = h.calls[i].delivery
		}
		if len(d.Messages) == 0 {
			d.Lost = h.waitError(h.calls[i], cmp.Or(err, errors.Join(sent, h.undone)))
		}
		if request.Take(d) || len(d.Messages) == 0 {
			continue
		}
		if released := h.c.giveBack(ctx, h.calls[i]); released != nil {
			err = errors.Join(err, fmt.Errorf("a claim was not undone, and its lease will expire: %w", released))
		}
	}
	if err != nil {
		h.c.Log.Warn("handing over the messages of a push failed", zap.Error(err))
	}
	h.c.Waker.Wake(ctx, needWake) // the delivery does not wait for this wake
	if h.undone != nil {
		h.c.Waker.Wake(ctx, h.partitions)
	}
}
