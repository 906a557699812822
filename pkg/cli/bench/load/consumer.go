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
	// Batch is the maximum number of messages per pop, Partitions the maximum number of partitions.
	Batch, Partitions int
	AutoAck           bool
	// Wait is the time that a pop waits at the server. 0 means 30 s.
	Wait time.Duration
	// Eager makes a pop wait at the server only if the last pop was empty. The meter measures the pops that do not
	// wait.
	Eager bool
	// Client sends the pops. If it is nil, the client of the traffic sends them.
	Client *Client
}

const defaultWait = 30 * time.Second

// Delivery is the answer of a pop, possibly without messages.
type Delivery struct {
	LeaseID  string    `json:"leaseId"`
	Messages []Message `json:"messages"`

	Sent, At time.Time `json:"-"`
}

// Message has the fields that the ledger verifies and the fields that an ack needs. A missing field is empty or 0. No
// message of this package has such values.
type Message struct {
	TransactionID string  `json:"transactionId"`
	PartitionID   string  `json:"partitionId"`
	Partition     string  `json:"partition"`
	Data          Payload `json:"data"`
}

// Payload identifies a message. Both numbers start at 1.
type Payload struct {
	Lane int `json:"lane"`
	N    int `json:"n"`
}

// ref returns the lane and the number of the message. Both start at 0.
func (m *Message) ref() Ref { return Ref{m.Data.Lane - 1, m.Data.N - 1} }

// Consumer pops and acknowledges for a group. It belongs to one goroutine.
type Consumer struct {
	PopOptions
	traffic *Traffic
	// now is the URL of a pop that does not wait, wait the URL of a pop that waits.
	now, wait *url.URL
	// own has the next expected number of each lane for this consumer. It is set only with autoAck.
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

// Pop returns the messages that are ready, and records them in the ledger and the meter. With wait, the pop waits at
// the server for messages. The delivery is valid until the next pop.
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

// ack acknowledges a delivery. It blocks until the answer, even if ctx ends.
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

// Loop pops and acknowledges until ctx ends, and returns the error of ctx. It counts failed requests.
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

// Search pops until the queue is empty. A message that no consumer received before counts as stuck. No other consumer
// may run.
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
