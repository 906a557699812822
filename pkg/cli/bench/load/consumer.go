package load

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
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
	// Eager pops do not wait at the server unless the last pop was empty. The meter times pops
	// without a wait.
	Eager bool
	// Client is the server of the pops; nil is the one of the traffic.
	Client *Client
}

const defaultWait = 30 * time.Second

// Delivery is the answer of a pop, possibly without messages.
type Delivery struct {
	LeaseID  string    `json:"leaseId"`
	Messages []Message `json:"messages"`

	Sent, At time.Time `json:"-"`
}

// Message holds the fields that are verified or that an ack needs. A missing field is empty or
// 0; no message of ours has such values.
type Message struct {
	TransactionID string  `json:"transactionId"`
	PartitionID   string  `json:"partitionId"`
	Partition     string  `json:"partition"`
	Data          Payload `json:"data"`
}

// Payload identifies a message; both numbers count from 1.
type Payload struct {
	Lane int `json:"lane"`
	N    int `json:"n"`
}

// ref returns the lane and the number of the message, from 0.
func (m *Message) ref() Ref { return Ref{m.Data.Lane - 1, m.Data.N - 1} }

// Consumer pops and acknowledges for a group. It belongs to one goroutine.
type Consumer struct {
	PopOptions
	traffic *Traffic
	// now and wait are the URLs of a pop that does not wait and of one that does.
	now, wait *url.URL
	// own has the next number of each lane, with autoAck.
	own map[int]int

	popped   bytes.Buffer
	delivery Delivery
	acks     batch
}

// NewConsumer returns a consumer.
func (t *Traffic) NewConsumer(o PopOptions) *Consumer {
	if o.Wait == 0 {
		o.Wait = defaultWait
	}
	if o.Client == nil {
		o.Client = t.Client
	}
	c := &Consumer{PopOptions: o, traffic: t}
	if o.AutoAck {
		c.own = map[int]int{}
	}
	query := url.Values{"batch": {strconv.Itoa(o.Batch)}, "autoAck": {strconv.FormatBool(o.AutoAck)}}
	if partitions := min(o.Batch, o.Partitions); partitions > 1 {
		query.Set("partitions", strconv.Itoa(partitions))
	}
	if group := t.Groups[o.Group]; group != "" {
		query.Set("consumerGroup", group)
	}
	c.now = o.Client.URL("/api/v1/pop/queue/" + url.PathEscape(o.Queue))
	c.now.RawQuery = query.Encode()
	query.Set("wait", "true")
	query.Set("timeout", strconv.FormatInt(o.Wait.Milliseconds(), 10))
	c.wait = c.now.ResolveReference(&url.URL{RawQuery: query.Encode()})
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
	d := &c.delivery
	*d = Delivery{Messages: d.Messages[:0]}
	resp, err := c.Client.Do(ctx, http.MethodGet, at, nil, &c.popped)
	d.Sent, d.At = resp.Sent, resp.At
	if err != nil || c.popped.Len() == 0 {
		return d, err
	}
	if err := json.Unmarshal(c.popped.Bytes(), d); err != nil {
		return d, unreadable("decoding the answer of a pop: %w", err)
	}
	if len(d.Messages) == 0 {
		return d, nil
	}
	if c.Eager && !wait {
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
	results, _, err := c.acks.post(ctx, c.Client, "/api/v1/ack/batch", len(d.Messages), `"success":true`)
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

// Search pops until the queue is empty. Messages that it finds and no consumer had count as stuck.
// No other consumer may run.
func (t *Traffic) Search(ctx context.Context, o PopOptions) error {
	o.AutoAck = true
	c := t.NewConsumer(o)
	before := t.Ledger.Counts().Delivered
	for {
		d, err := c.Pop(ctx, false)
		if err != nil {
			return fmt.Errorf("popping the remaining messages: %w", err)
		}
		if len(d.Messages) == 0 {
			t.Ledger.countStuck(t.Ledger.Counts().Delivered - before)
			return nil
		}
	}
}
