package client

import (
	"context"
	"errors"
	"time"
)

// firstExtension is the time from a delivery to the first extension of its lease. The delivery does not say how long the lease
// lasts, but the shortest leaseTime of a queue is one second. If a worker finishes a delivery earlier, it sends no extension.
const firstExtension = time.Second / 3

// lease keeps the lease of a delivery alive until release.
type lease struct {
	// ctx is the context of the handlers. When the lease ends, ctx ends with the cause ErrLeaseLost.
	ctx    context.Context //nolint:containedctx // the context is the lifetime of the lease
	cancel context.CancelCauseFunc
	timer  *time.Timer
	// done closes when keep returns. If timer was stopped before it fired, done never closes.
	done chan struct{}
}

// hold starts to extend a lease regularly.
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

// keep extends the lease until l.ctx ends. If the server refuses an extension or the lease runs out, keep ends l.ctx.
func (l *lease) keep(w *consumer, id string, began time.Time) {
	length := seconds(w.lease)
	ends := began.Add(length)
	for l.ctx.Err() == nil {
		sent := time.Now()
		// The server counts from the arrival of the request, so the lease ends at sent + length or later.
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

// release stops the extensions. It blocks until keep has returned.
func (l *lease) release() {
	l.cancel(nil)
	if !l.timer.Stop() {
		<-l.done
	}
}
