package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"time"

	"github.com/belfry-mq/belfry/pkg/client"
)

// Order is a payload.
type Order struct {
	ID   int    `json:"id"`
	Item string `json:"item"`
}

// exampleServer returns a client of a fake server, and a function that stops the server.
func exampleServer() (*client.Client, func()) {
	server := httptest.NewServer(newBroker())
	c, err := client.New(client.Config{URLs: []string{server.URL}})
	if err != nil {
		panic(err)
	}
	return c, func() { c.Close(); server.Close() }
}

// The client uses two servers. Its tokens last an hour.
func ExampleNew() {
	c, err := client.New(client.Config{
		URLs: []string{"https://belfry-1.example.com", "https://belfry-2.example.com"},
		Token: func(context.Context) (string, time.Time, error) {
			return "a token of the identity provider", time.Now().Add(time.Hour), nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
}

func ExampleClient_Push() {
	c, stop := exampleServer()
	defer stop()
	ctx := context.Background()
	item := client.Item{Queue: "orders", Partition: "customer-7", TransactionID: "order-1", Payload: Order{ID: 1, Item: "bell"}}
	for range 2 { // the second push changes nothing
		stored, err := c.Push(ctx, item)
		fmt.Println(stored.Status, err)
	}
	// Output:
	// queued <nil>
	// duplicate <nil>
}

// The error that the handler returns decides what happens to the message.
func ExampleConsume() {
	c, stop := exampleServer()
	defer stop()
	ctx, done := context.WithCancel(context.Background()) // programs usually use signal.NotifyContext
	defer done()
	for id, item := range []string{"bell", "", "rope"} {
		if _, err := c.Push(ctx, client.Item{Queue: "orders", Payload: Order{id, item}}); err != nil {
			fmt.Println(err)
		}
	}
	err := client.Consume(ctx, c, client.ConsumeOptions{Queue: "orders", Group: "billing", Concurrency: 1},
		func(_ context.Context, m *client.Message[Order]) error {
			switch m.Data.Item {
			case "":
				return client.DeadLetter(errors.New("an order without an item"))
			case "rope":
				done()
			}
			fmt.Println("billing", m.Data.Item)
			return nil
		})
	fmt.Println(err)
	// Output:
	// billing bell
	// billing rope
	// <nil>
}

func ExampleMessages() {
	c, stop := exampleServer()
	defer stop()
	ctx := context.Background()
	items := []client.Item{{Queue: "orders", Payload: Order{1, "bell"}}, {Queue: "orders", Payload: Order{2, "rope"}}}
	if _, err := c.PushMany(ctx, items); err != nil {
		fmt.Println(err)
	}
	for message, err := range client.Messages[Order](ctx, c, client.ConsumeOptions{Queue: "orders", Group: "billing"}) {
		if err != nil {
			fmt.Println(err)
			break
		}
		fmt.Println(message.Data.Item)
		message.Settle(nil)
		if message.Data.ID == 2 {
			break
		}
	}
	// Output:
	// bell
	// rope
}

// The transaction stores the invoice and acknowledges the order, or does neither.
func ExampleClient_Transact() {
	c, stop := exampleServer()
	defer stop()
	ctx, done := context.WithCancel(context.Background())
	defer done()
	if _, err := c.Push(ctx, client.Item{Queue: "orders", TransactionID: "order-1", Payload: Order{1, "bell"}}); err != nil {
		fmt.Println(err)
	}
	err := client.Consume(ctx, c, client.ConsumeOptions{Queue: "orders", Group: "billing"},
		func(ctx context.Context, m *client.Message[Order]) error {
			defer done()
			err := c.Transact(ctx, client.Transaction{
				Acks:   []client.Ack{m.Ack(client.Completed, nil)},
				Pushes: []client.Item{{Queue: "invoices", Partition: "customer-7", TransactionID: m.TransactionID, Payload: m.Data}},
			})
			fmt.Println("committed:", err == nil)
			if err != nil {
				return err
			}
			return client.ErrAcknowledged
		})
	fmt.Println(err)
	// Output:
	// committed: true
	// <nil>
}

// Many goroutines may push. Their messages share requests.
func ExampleProducer() {
	c, stop := exampleServer()
	defer stop()
	ctx := context.Background()
	p := c.NewProducer(client.ProducerOptions{})
	failed := 0
	for id := range 1000 {
		err := p.Push(ctx, client.Item{Queue: "orders", Payload: Order{ID: id}}, func(_ client.PushResult, err error) {
			if err != nil {
				failed++
			}
		})
		if err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(p.Close(ctx), failed)
	// Output:
	// <nil> 0
}

// Errors are compared with errors.Is.
func ExampleError() {
	c, stop := exampleServer()
	defer stop()
	err := c.Do(context.Background(), client.Request{Path: "/api/v1/nothing"}, nil)
	var failure *client.Error
	if errors.Is(err, client.ErrNotFound) && errors.As(err, &failure) {
		fmt.Println(failure.Status, failure.Message)
	}
	// Output:
	// 404 no such path
}

// A program without Consume calls Pop and Ack. The server delivers the second order again after a minute.
func ExampleClient_Pop() {
	c, stop := exampleServer()
	defer stop()
	ctx := context.Background()
	if _, err := c.PushMany(ctx, []client.Item{{Queue: "orders", Payload: Order{1, "bell"}}, {Queue: "orders", Payload: Order{2, "rope"}}}); err != nil {
		fmt.Println(err)
	}
	messages, err := c.Pop(ctx, client.PopOptions{Queue: "orders", Group: "billing", Batch: 10, Wait: time.Second})
	if err != nil {
		fmt.Println(err)
	}
	var acks []client.Ack
	for _, raw := range messages {
		order, err := client.Decode[Order](raw)
		if err != nil {
			fmt.Println(err)
			return
		}
		ack := order.Ack(client.Completed, nil)
		if order.Data.Item == "rope" {
			ack = order.Ack(client.Failed, errors.New("no rope is left"))
			ack.RetryAfterSeconds = time.Minute.Seconds()
		}
		acks = append(acks, ack)
	}
	results, err := c.Ack(ctx, acks...)
	for _, result := range results {
		fmt.Println(result.Success)
	}
	fmt.Println(err)
	// Output:
	// true
	// true
	// <nil>
}

// A message has the trace id of the request that pushed it.
func ExampleTraceID() {
	id, err := client.TraceID("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	fmt.Println(id, err)
	fmt.Println(client.W3CTraceID(id))
	// Output:
	// 4bf92f35-77b3-4da6-a3ce-929d0e0e4736 <nil>
	// 4bf92f3577b34da6a3ce929d0e0e4736
}
