package inflight

import "context"

type contextKey struct{}

// With returns a context for reads whose rows count as the answer of a request. Nil: they do not count.
func With(ctx context.Context, r *Reservation) context.Context {
	return context.WithValue(ctx, contextKey{}, r)
}

// Fork returns a context with another reservation of the same budget, if ctx has one, and what ends that reservation.
func Fork(ctx context.Context) (forked context.Context, end func()) {
	r := From(ctx)
	if r == nil {
		return ctx, func() {}
	}
	another := r.Another()
	return With(ctx, another), another.End
}

// From returns the reservation of a context, or nil. Its reads are then not bounded.
func From(ctx context.Context) *Reservation {
	r, _ := ctx.Value(contextKey{}).(*Reservation)
	return r
}
