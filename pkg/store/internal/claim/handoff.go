package claim

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/pkg/store/internal/wake"
)

// Handoff wakes the partitions of a push, and claims them in the same pipeline for requests that
// wait for the push. The wake and the claims are one transaction after the commit of the push. It
// does not wait for the disk.
type Handoff struct {
	c          *Claimer
	partitions []int64
	waiting    []queue.Handoff
	calls      []*call
	// answered: the results of the claims were read.
	answered bool
	// undone is the error of the claims that also undid the wake.
	undone error
}

// NewHandoff returns the wake of partitions and the claims of the waiting requests.
func (c *Claimer) NewHandoff(partitions []int64, waiting []queue.Handoff) *Handoff {
	return &Handoff{c: c, partitions: partitions, waiting: waiting}
}

// Queue adds the wake and the claims to b.
func (h *Handoff) Queue(b *pgx.Batch) {
	wake.Queue(b, h.partitions)
	for i := range h.waiting {
		one := newCall(h.waiting[i].Request, h.waiting[i].Target)
		h.calls = append(h.calls, one)
		if h.c.reserve(one) {
			h.c.queue(b, one, len(h.waiting) == 1)
		}
	}
}

// Read reads the results of Queue and returns what became ready. The push was committed before, so a
// failure is logged, and Conclude repeats the wake.
func (h *Handoff) Read(results pgx.BatchResults) []queue.Ready {
	if len(h.calls) == 0 {
		return h.c.Waker.Read(results, len(h.partitions))
	}
	ready, err := wake.ReadReadyResult(results, "waking")
	for _, one := range h.calls {
		if one.sent {
			err = errors.Join(err, h.c.readResult(results, one))
		}
	}
	if err != nil {
		h.c.Log.Warn("A push could not hand its messages over. It announces them instead.", zap.Error(err))
		h.undone = err
		return nil
	}
	h.answered = true
	return ready
}

// Conclude hands over what was claimed, releases leases that no request waits for any more, and
// repeats the wake if it was undone. It must be called once, also when the pipeline failed; sent is
// the error of the pipeline.
func (h *Handoff) Conclude(ctx context.Context, sent error) {
	var err error
	if h.answered {
		err = h.c.finish(ctx, h.calls)
	}
	switch {
	case err != nil:
		h.c.orphan(err, true, h.calls...)
	case !h.answered:
		h.c.orphan(errors.Join(sent, h.undone), false, h.calls...)
	}
	for i, request := range h.waiting {
		var d queue.Delivery
		if h.answered && err == nil {
			d = h.calls[i].delivery
		}
		if request.Take(d) || len(d.Messages) == 0 {
			continue
		}
		h.calls[i].memory.free()
		if released := h.c.Release(ctx, d.LeaseID); released != nil {
			err = errors.Join(err, fmt.Errorf("the lease will expire: %w", released))
		}
	}
	if err != nil {
		h.c.Log.Warn("Handing over the messages of a push failed.", zap.Error(err))
	}
	if h.undone != nil {
		h.c.Waker.Wake(ctx, h.partitions)
	}
}
