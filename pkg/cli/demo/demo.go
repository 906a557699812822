package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/belfry-mq/belfry/pkg/client"
)

// The queues of the shop.
const orders, invoices = "demo.orders", "demo.invoices"

const (
	// customers is the number of customers. Each customer has one partition in the queue of the orders.
	customers = 40
	// unpaid is the number of invoices that the demo makes dead letters at the start.
	unpaid = 12
)

// order is the payload of an order.
type order struct {
	ID       int64  `json:"id"`
	Customer string `json:"customer"`
	Article  string `json:"article"`
	Count    int    `json:"count"`
	Cents    int64  `json:"cents"`
}

// shop is a running demo.
type shop struct {
	client *client.Client
	// every is the time between two orders.
	every time.Duration
	mu    sync.Mutex
	// last is the id of the newest order. mu protects it.
	last int64
	// refused has the ids of the invoices that the printer will refuse, with the reason. mu protects it.
	refused map[int64]string
}

// Run runs the shop until ctx ends, and then returns nil. It pushes one order per interval every. If the server
// refuses a request, Run returns the error.
func Run(ctx context.Context, c *client.Client, every time.Duration, out io.Writer) error {
	s := &shop{client: c, every: every, last: time.Now().Unix() * 1000, refused: map[int64]string{}}
	if err := s.open(ctx); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(out, "A small shop runs in the queues %s and %s, until Ctrl-C.\n"+
		"  billing    reads each order and writes an invoice\n"+
		"  warehouse  is too slow: its lag grows\n"+
		"  loyalty    fails now and then, and gets the order again\n"+
		"  printer    has no paper: %d invoices are dead letters until a redrive\n"+
		"To watch the shop, use the dashboard at /ui/ of the server, \"belfry top\" or \"belfry group list\".\n"+
		"To remove the shop, run \"belfry queue delete %s\" and \"belfry queue delete %s\".\n", orders, invoices, unpaid, orders, invoices)
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var all sync.WaitGroup
	for _, run := range []func(context.Context) error{s.customers, s.billing, s.warehouse, s.loyalty, s.printer} {
		all.Go(func() {
			if err := run(ctx); err != nil {
				stop(err)
			}
		})
	}
	<-ctx.Done()
	all.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// open creates the queues, and pushes the invoices that the printer refuses.
func (s *shop) open(ctx context.Context) error {
	for queue, options := range map[string]map[string]any{
		orders:   {"leaseTime": 30, "retryLimit": 3, "retryDelay": 1000, "retentionEnabled": true, "retentionSeconds": 3600},
		invoices: {"leaseTime": 30, "retryLimit": 0, "retentionEnabled": true, "retentionSeconds": 3600},
	} {
		body := map[string]any{"queue": queue, "namespace": "demo", "options": options}
		if err := s.client.Do(ctx, client.Request{Method: http.MethodPost, Path: "/api/v1/configure", Body: body}, nil); err != nil {
			return err
		}
	}
	items := make([]client.Item, unpaid)
	for i := range items {
		o := s.next()
		s.refused[o.ID] = "the printer is out of paper"
		if i%4 == 3 {
			s.refused[o.ID] = "the customer has no address"
		}
		items[i] = client.Item{Queue: invoices, Partition: o.Customer, Payload: o, TransactionID: fmt.Sprintf("unpaid-%d", o.ID)}
	}
	_, err := s.client.PushMany(ctx, items)
	return err
}

// next returns a new order.
func (s *shop) next() order {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	articles := []string{"bell", "rope", "clapper", "yoke"}
	return order{
		ID: s.last, Customer: fmt.Sprintf("customer-%02d", rand.IntN(customers)), Article: articles[rand.IntN(len(articles))],
		Count: 1 + rand.IntN(5), Cents: int64(500 + rand.IntN(50_000)),
	}
}

// customers push an order at each tick.
func (s *shop) customers(ctx context.Context) error {
	tick := time.NewTicker(s.every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		o := s.next()
		_, err := s.client.Push(ctx, client.Item{Queue: orders, Partition: o.Customer, Payload: o, TransactionID: fmt.Sprintf("order-%d", o.ID)})
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// billing writes an invoice for each order.
func (s *shop) billing(ctx context.Context) error {
	return s.consume(ctx, orders, "billing", 4, func(ctx context.Context, o order) error {
		_, err := s.client.Push(ctx, client.Item{Queue: invoices, Partition: o.Customer, Payload: o, TransactionID: fmt.Sprintf("invoice-%d", o.ID)})
		return err
	})
}

// warehouse needs three intervals for each order. A new order comes in each interval, so the lag of the group grows.
func (s *shop) warehouse(ctx context.Context) error {
	return s.consume(ctx, orders, "warehouse", 1, func(ctx context.Context, _ order) error {
		pause := time.NewTimer(3 * s.every)
		defer pause.Stop()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-pause.C:
			return nil
		}
	})
}

// loyalty fails at random. It fails at every attempt for each 50th order, so that order becomes a dead letter.
func (s *shop) loyalty(ctx context.Context) error {
	return s.consume(ctx, orders, "loyalty", 4, func(_ context.Context, o order) error {
		if o.ID%50 == 0 || rand.IntN(20) == 0 {
			return fmt.Errorf("the points of %s cannot be counted: the service answered 502", o.Customer)
		}
		return nil
	})
}

// printer refuses each invoice in refused once. The invoice is a dead letter until a redrive, which succeeds.
func (s *shop) printer(ctx context.Context) error {
	return s.consume(ctx, invoices, "printer", 2, func(_ context.Context, o order) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if reason := s.refused[o.ID]; reason != "" {
			delete(s.refused, o.ID)
			return client.DeadLetter(errors.New(reason))
		}
		return nil
	})
}

func (s *shop) consume(ctx context.Context, queue, group string, workers int, handle func(context.Context, order) error) error {
	options := client.ConsumeOptions{Queue: queue, Group: group, Concurrency: workers, Batch: 10, Grace: -1}
	return client.Consume(ctx, s.client, options, func(ctx context.Context, m *client.Message[order]) error { return handle(ctx, m.Data) })
}
