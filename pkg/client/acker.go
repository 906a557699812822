package client

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/trace"
)

const (
	// ackSenders is the number of concurrent requests with acknowledgments.
	ackSenders = 2
	// maxAcks is the number of acknowledgments at which a delivery submits them and a sender stops collecting. A request has
	// fewer than 2*maxAcks acknowledgments. By default, the server accepts 50,000 acknowledgments.
	maxAcks = 2000
)

// ackItem is an acknowledgment of a consumer.
type ackItem struct {
	Ack
	// mayBeRefused means that a refusal does not show a lost lease.
	mayBeRefused bool
	// submission is the submission that contains the acknowledgment.
	submission *submission
	// span is the process span of the message. It may be invalid.
	span trace.SpanContext
}

// submission is a group of acknowledgments of one delivery.
type submission struct {
	items []ackItem
	// done closes when the server has answered or the client has given up.
	done chan struct{}
	// refused means that the server refused an acknowledgment. Then the lease has ended.
	refused atomic.Bool
	// failed means that the client does not know whether the server applied all acknowledgments.
	failed atomic.Bool
}

// wasRefused reports whether the answer has arrived and an acknowledgment was refused.
func (s *submission) wasRefused() bool { return s.refused.Load() }

// answered blocks until done closes. It reports whether the server answered all acknowledgments.
func (s *submission) answered() bool {
	<-s.done
	return !s.failed.Load()
}

// acker sends the acknowledgments of all workers of a consumer. Acknowledgments
// that arrive during a request share the next request.
type acker struct {
	client *Client
	ctx    context.Context //nolint:containedctx // the context has the values of the context of Consume, and does not end
	queue  chan *submission
	// senders are the goroutines of send.
	senders sync.WaitGroup
}

// newAcker starts an acker. ctx must not end.
func newAcker(ctx context.Context, c *Client) *acker {
	a := &acker{client: c, ctx: ctx, queue: make(chan *submission, ackSenders)}
	for range ackSenders {
		a.senders.Go(a.send)
	}
	return a
}

// submit blocks while the queue is full.
func (a *acker) submit(items []ackItem) *submission {
	s := &submission{items: items, done: make(chan struct{})}
	for i := range items {
		items[i].submission = s
	}
	a.queue <- s
	return s
}

// close blocks until the server has answered all acknowledgments or the client has given up. Do not call submit after close.
func (a *acker) close() {
	close(a.queue)
	a.senders.Wait()
}

func (a *acker) send() {
	for first := range a.queue {
		together, items := []*submission{first}, first.items
	collect:
		for len(items) < maxAcks {
			select {
			case next, open := <-a.queue:
				if !open {
					break collect
				}
				together, items = append(together, next), append(items, next.items...)
			default:
				break collect
			}
		}
		a.request(items)
		for _, s := range together {
			close(s.done)
		}
	}
}

// request sends acknowledgments in one request. If the server refuses the whole request as invalid or too large, request sends
// each half alone. If an acknowledgment in the first half fails, request sends no later acknowledgment of its submission.
func (a *acker) request(items []ackItem) {
	acks, processed := make([]Ack, len(items)), make([]trace.SpanContext, len(items))
	for i := range items {
		acks[i], processed[i] = items[i].Ack, items[i].span
	}
	ctx, end := a.client.spans.Settle(a.ctx, processed)
	results, err := a.client.Ack(ctx, acks...)
	end(err)
	if half := len(items) / 2; half > 0 && (errors.Is(err, ErrInvalid) || errors.Is(err, ErrTooLarge)) {
		a.request(items[:half])
		rest := slices.DeleteFunc(items[half:], func(item ackItem) bool { return item.submission.failed.Load() })
		if len(rest) > 0 {
			a.request(rest)
		}
		return
	}
	if err != nil {
		a.client.log.ErrorContext(a.ctx, "messages were not acknowledged and may be delivered again", "messages", len(items), "error", err)
	}
	for i, item := range items {
		switch {
		case err != nil:
			item.submission.failed.Store(true)
		case !results[i].Success && !item.mayBeRefused:
			item.submission.refused.Store(true)
			a.client.log.WarnContext(a.ctx, "an acknowledgment was refused, and the message may be delivered again",
				"transaction_id", item.TransactionID, "partition_id", item.PartitionID, "reason", results[i].Error)
		}
	}
}
