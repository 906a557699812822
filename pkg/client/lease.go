package client

import (
	"context"
	"errors"
	"time"
)

// firstExtension is when a lease is extended for the first time. The API does not say how long a lease lasts, but the shortest
// leaseTime of a queue is a second. Handlers that are faster need no extension.
const firstExtension = time.Second / 3

// lease keeps the lease of a delivery alive until release.
type lease struct {
	// ctx is the context of the handlers. It ends with the lease, with the cause ErrLeaseLost.
	ctx    context.Context //nolint:containedctx // it is the lifetime of the lease
	cancel context.CancelCauseFunc
	timer  *time.Timer
	// done closes when the keeper has ended, if the timer started it.
	done chan struct{}
}

// hold begins to keep a lease.
func (w *consumer) hold(id string) *lease {
	ctx, cancel := context.WithCancelCause(w.work)
	l := &lease{ctx: ctx, cancel: cancel, done: make(chan struct{})}
	delivered := time.Now()
	l.timer = time.AfterFunc(firstExtension, func() {
		defer close(l.done)
		l.keep(w, id, delivered)
	})
	return l
}

// keep extends the lease until its context ends. until then the lease is live if no extension was refused.
func (l *lease) keep(w *consumer, id string, began time.Time) {
	length := seconds(w.lease)
	ends := began.Add(length)
	for l.ctx.Err() == nil {
		sent := time.Now()
		// The server counts from the arrival of the request, so the end is not before sent + length.
		attempt, cancel := context.WithDeadline(l.ctx, ends)
		_, err := w.client.Extend(attempt, id, length)
		cancel()
		switch {
		case err == nil:
			ends = sent.Add(length)
		case l.ctx.Err() != nil:
			return
		case errors.Is(err, ErrLeaseLost) || time.Now().After(ends):
			l.cancel(ErrLeaseLost)
			return
		default:
			w.client.log.WarnContext(l.ctx, "a lease was not extended", "lease_id", id, "error", err)
		}
		pauseFor(l.ctx, min(length/3, max(firstExtension, time.Until(ends)/3)))
	}
}

// release stops keeping the lease. It blocks until the keeper has ended.
func (l *lease) release() {
	l.cancel(nil)
	if !l.timer.Stop() {
		<-l.done
	}
}
