package client

import (
	"context"
	"iter"
)

// Delivered is a message of Messages. Its loop body decides what becomes of it.
type Delivered[T any] struct {
	*Message[T]
	ctx     context.Context //nolint:containedctx // an iterator has no other way to pass it
	settled bool
	verdict error
}

// Context ends when the lease of the message is lost, or Grace after the context of Messages. It carries the trace id.
func (d *Delivered[T]) Context() context.Context { return d.ctx }

// Settle decides what becomes of the message, as the result of a handler of Consume does. The last call counts. The decision is
// sent to the server after the loop body.
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
// A message that the loop body does not settle is completed when the body asks for the next one. If the body leaves the
// loop, an unsettled message is released and delivered again. The other messages of its pop are released too.
//
// The loop ends without an error when ctx ends. It ends with an error, and without a message, when the server refuses a pop. A
// payload that does not fit T fails as in Consume and does not reach the loop. A panic of the body is not recovered.
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
