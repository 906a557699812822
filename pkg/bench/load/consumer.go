package load

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"time"
)

// PopOptions describe the pops of a consumer.
type PopOptions struct {
	Queue string
	// Group is an index of the groups of the traffic.
	Group int
	// Batch is the most messages of a pop, Partitions the most partitions.
	Batch, Partitions int
	AutoAck           bool
	// Wait is how long a pop waits at the server; 0 is 30 seconds.
	Wait time.Duration
	// Eager pops do not wait at the server unless the last pop was empty.
	Eager bool
	// Timed measures the pops that do not wait.
	Timed bool
}

const defaultWait = 30 * time.Second

// Consumer pops and acknowledges for a group. It belongs to one goroutine.
type Consumer struct {
	PopOptions
	traffic *Traffic
	client  *Client
	// now and wait are the URLs of a pop that does not wait and of one that does.
	now, wait *url.URL
	// own has the next number of each lane, with autoAck.
	own map[int]int

	popped popBuffer
	acks   batch
}

// NewConsumer returns a consumer at the server of the traffic.
func (t *Traffic) NewConsumer(o PopOptions) *Consumer { return t.NewConsumerAt(t.Client, o) }

// NewConsumerAt returns a consumer at another server.
func (t *Traffic) NewConsumerAt(client *Client, o PopOptions) *Consumer {
	if o.Wait == 0 {
		o.Wait = defaultWait
	}
	c := &Consumer{PopOptions: o, traffic: t, client: client}
	c.now = client.popURL(o, t.Groups[o.Group], 0)
	c.wait = client.popURL(o, t.Groups[o.Group], o.Wait)
	if o.AutoAck {
		c.own = map[int]int{}
	}
	return c
}

// Pop returns the messages that are ready, and records them in ledger and meter. With wait it
// waits at the server for messages. The delivery is valid until the next pop.
func (c *Consumer) Pop(ctx context.Context, wait bool) (*Delivery, error) {
	at := c.now
	if wait {
		at = c.wait
	}
	ctx, cancel := context.WithTimeout(ctx, c.Wait+RequestTimeout)
	defer cancel()
	c.traffic.Meter.Requests.Add(1)
	d, err := c.client.pop(ctx, at, &c.popped)
	if err != nil || len(d.Messages) == 0 {
		return d, err
	}
	if c.Timed && !wait {
		c.traffic.Meter.Time(TimePop, d.Sent, d.Sent, d.At)
	}
	c.traffic.Ledger.delivered(c.Queue, c.Group, d, c.own)
	c.traffic.Meter.count(&c.traffic.Meter.Delivered, len(d.Messages), d.At)
	return d, nil
}

// ack completes a delivery. It blocks until the answer, also if ctx ends.
func (c *Consumer) ack(ctx context.Context, d *Delivery) {
	if c.AutoAck {
		return
	}
	c.acks.body = appendAck(c.acks.body[:0], d, c.traffic.Groups[c.Group])
	c.traffic.Meter.Requests.Add(1)
	results, _, err := c.acks.post(ctx, c.client, c.client.ack, len(d.Messages), `"success":true`)
	refused := slices.IndexFunc(results, func(r itemResult) bool { return !r.Success })
	if refused >= 0 {
		err = &Failure{Kind: "ack refused", error: fmt.Errorf("an ack was refused: %s", results[refused].Error)}
	}
	if err != nil {
		c.traffic.Meter.fail(err)
	}
	c.traffic.Ledger.acked(c.Group, d, func(i int) bool {
		return err == nil || refused >= 0 && results[i].Success
	})
}

// Loop pops and acknowledges until ctx ends, and returns its error. Failed requests are counted.
func (c *Consumer) Loop(ctx context.Context) error {
	for ctx.Err() == nil {
		d, err := c.Pop(ctx, !c.Eager)
		if err == nil && len(d.Messages) == 0 && c.Eager {
			d, err = c.Pop(ctx, true)
		}
		switch {
		case ctx.Err() != nil && err != nil:
		case err != nil:
			c.traffic.Unanswered.Add(1)
			c.traffic.Meter.fail(err)
			_ = Pause(ctx, AfterError)
		case len(d.Messages) > 0:
			c.ack(ctx, d)
		case d.At.Sub(d.Sent) < afterEmpty:
			_ = Pause(ctx, afterEmpty)
		}
	}
	return ctx.Err()
}

// Search pops until the queue is empty, and returns how many messages it found that no consumer
// had. No other consumer may run.
func (t *Traffic) Search(ctx context.Context, o PopOptions) (found int, err error) {
	o.AutoAck = true
	c := t.NewConsumer(o)
	before := t.Ledger.Counts().Delivered
	for {
		d, err := c.Pop(ctx, false)
		if err != nil {
			return 0, fmt.Errorf("popping the remaining messages: %w", err)
		}
		if len(d.Messages) == 0 {
			return t.Ledger.Counts().Delivered - before, nil
		}
	}
}
