package client

import (
	"context"
	"iter"
)

// Delivered is a message that Messages yields. The loop body can set its outcome with Settle.
type Delivered[T any] struct {
	*Message[T]
	ctx     context.Context //nolint:containedctx // an iterator cannot pass a context otherwise
	settled bool
	verdict error
}

// Context returns the context of the message. It ends when the lease is lost, or Grace after the end of the context of Messages.
// It carries the trace id.
func (d *Delivered[T]) Context() context.Context { return d.ctx }

// Settle sets the outcome of the message. verdict has the meaning of a handler's result in Consume. The last call counts. The
// consumer sends the outcome to the server after the loop body.
func (d *Delivered[T]) Settle(verdict error) { d.settled, d.verdict = true, verdict }

// Messages returns an iterator over the messages that a consumer receives, one at a time:
//
//	for message, err := range client.Messages[Order](ctx, c, client.ConsumeOptions{Queue: "orders"}) {
//		if err != nil {
//			return err
//		}
//		message.Settle(ship(message.Context(), message.Data))
//	}
//
// If the loop body does not settle a message, the message is completed at the end of the body. If the body leaves the loop
// without Settle, the message is released and delivered again. The other messages of its pop are released too.
//
// When ctx ends, the loop ends without an error. When the server refuses a pop, the loop yields the error without a message, and
// ends. If a payload does not fit T, the message fails as in Consume, and the loop does not get it. Messages does not recover a
// panic of the body.
func Messages[T any](ctx context.Context, c *Client, o ConsumeOptions) iter.Seq2[*Delivered[T], error] {
	return func(yield func(*Delivered[T], error) bool) {
		loop, leave := context.WithCancel(ctx)
		defer leave()
		err := c.consume(loop, o, 1, func(work context.Context, raw *Raw) error {
			message, err := Decode[T](raw)
			if err != nil {
				return err
			}
			delivered := &Delivered[T]{Message: message, ctx: work}
			if !yield(delivered, nil) {
				leave()
				if !delivered.settled {
					return RetryAfter(0, nil)
				}
			}
			return delivered.verdict
		})
		if err != nil && loop.Err() == nil {
			yield(nil, err)
		}
	}
}
