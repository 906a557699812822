package load

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/go-json-experiment/json"
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
	// own has the last number of each lane, with autoAck.
	own map[int]int

	popped popBuffer
	body   []byte
	into   bytes.Buffer
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

// Pop returns the messages that are ready, and records them in ledger and meter. It does not
// wait at the server. The delivery is valid until the next pop.
func (c *Consumer) Pop(ctx context.Context) (*Delivery, error) { return c.pop(ctx, c.now) }

// PopWait is Pop with a wait at the server.
func (c *Consumer) PopWait(ctx context.Context) (*Delivery, error) { return c.pop(ctx, c.wait) }

func (c *Consumer) pop(ctx context.Context, at *url.URL) (*Delivery, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Wait+RequestTimeout)
	defer cancel()
	c.traffic.Meter.requests.Add(1)
	d, err := c.client.pop(ctx, at, &c.popped)
	if err != nil || len(d.Messages) == 0 {
		return d, err
	}
	if c.Timed && at == c.now {
		c.traffic.Meter.Time(TimePop, d.Sent, d.Sent, d.At)
	}
	c.traffic.Ledger.delivered(c.Queue, c.Group, d, c.own)
	c.traffic.Meter.countDelivered(len(d.Messages), d.At)
	return d, nil
}

// ack completes a delivery. It blocks until the answer, also if ctx ends.
func (c *Consumer) ack(ctx context.Context, d *Delivery) {
	if c.AutoAck {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), RequestTimeout)
	defer cancel()
	c.body = appendAck(c.body[:0], d, c.traffic.Groups[c.Group])
	c.traffic.Meter.requests.Add(1)
	_, err := c.client.Do(ctx, Request{http.MethodPost, c.client.ack, c.body}, &c.into)
	if err == nil && hasTimes(c.into.Bytes(), `"success":true`, len(d.Messages)) {
		c.traffic.Ledger.acked(c.Group, d, func(int) bool { return true })
		return
	}
	var results []ackResult
	if err == nil {
		results, err = decodeAcks(c.into.Bytes(), len(d.Messages))
	}
	if err != nil {
		c.traffic.Meter.fail(err)
		c.traffic.Ledger.acked(c.Group, d, func(int) bool { return false })
		return
	}
	c.traffic.Ledger.acked(c.Group, d, func(i int) bool { return results[i].Success })
	for _, result := range results {
		if !result.Success {
			c.traffic.Meter.fail(&Failure{Kind: "ack refused", err: fmt.Errorf("an ack was refused: %s", result.Error)})
			return
		}
	}
}

type ackResult struct {
	Success bool   `json:"success"`
	Error   string `json:"error"`
}

// decodeAcks decodes the answer of n acks.
func decodeAcks(body []byte, n int) (results []ackResult, err error) {
	if err := json.Unmarshal(body, &results); err != nil {
		return nil, unreadable("decoding the answer of an ack: %w", err)
	}
	if len(results) != n {
		return nil, unreadable("decoding the answer of an ack: %d acks had %d answers", n, len(results))
	}
	return results, nil
}

// Loop pops and acknowledges until ctx ends, and returns its error. Failed requests are counted.
func (c *Consumer) Loop(ctx context.Context) error {
	at := c.wait
	for ctx.Err() == nil {
		if c.Eager {
			at = c.now
		}
		d, err := c.pop(ctx, at)
		if err == nil && len(d.Messages) == 0 && c.Eager {
			at = c.wait
			d, err = c.pop(ctx, at)
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
		d, err := c.Pop(ctx)
		if err != nil {
			return 0, fmt.Errorf("popping the remaining messages: %w", err)
		}
		if len(d.Messages) == 0 {
			return t.Ledger.Counts().Delivered - before, nil
		}
	}
}
