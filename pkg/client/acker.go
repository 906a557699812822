package client

import (
	"context"
	"sync"
	"sync/atomic"
)

const (
	// ackSenders is the number of requests with acknowledgments at a time.
	ackSenders = 2
	// maxAcks bounds the acknowledgments of a request, except that one submission is never divided.
	maxAcks = 2000
)

// ackItem is an acknowledgment of a consumer.
type ackItem struct {
	Ack
	// mayBeRefused is set if a refusal is expected.
	mayBeRefused bool
}

// submission are the acknowledgments of one delivery.
type submission struct {
	items []ackItem
	// done closes when the server has answered, or the client gave up.
	done    chan struct{}
	refused atomic.Bool
}

// wasRefused reports whether the answer has arrived and an acknowledgment was refused.
func (s *submission) wasRefused() bool { return s.refused.Load() }

// acker sends the acknowledgments of all workers of a consumer. Acknowledgments
// that arrive during a request share the next one.
type acker struct {
	client *Client
	ctx    context.Context //nolint:containedctx // it has the values of the context of Consume, and does not end
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
	a.queue <- s
	return s
}

// close blocks until all acknowledgments are answered or given up.
func (a *acker) close() {
	close(a.queue)
	a.senders.Wait()
}

func (a *acker) send() {
	for first := range a.queue {
		together, n := []*submission{first}, len(first.items)
	collect:
		for n < maxAcks {
			select {
			case next, open := <-a.queue:
				if !open {
					break collect
				}
				together, n = append(together, next), n+len(next.items)
			default:
				break collect
			}
		}
		a.request(together, n)
	}
}

// request sends the acknowledgments of submissions in one request.
func (a *acker) request(together []*submission, n int) {
	acks := make([]Ack, 0, n)
	for _, s := range together {
		for _, item := range s.items {
			acks = append(acks, item.Ack)
		}
	}
	results, err := a.client.Ack(a.ctx, acks...)
	if err != nil {
		a.client.log.ErrorContext(a.ctx, "messages were not acknowledged and may be delivered again", "messages", n, "error", err)
	}
	for _, s := range together {
		for _, item := range s.items {
			if err != nil {
				break
			}
			if !results[0].Success && !item.mayBeRefused {
				s.refused.Store(true)
				a.client.log.WarnContext(a.ctx, "an acknowledgment was refused, and the message may be delivered again",
					"transaction_id", item.TransactionID, "partition_id", item.PartitionID, "reason", results[0].Error)
			}
			results = results[1:]
		}
		close(s.done)
	}
}
