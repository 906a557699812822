package load

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
)

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

// popURL is the URL of a pop; wait 0 does not wait.
func (c *Client) popURL(p PopOptions, group string, wait time.Duration) *url.URL {
	query := url.Values{"batch": {strconv.Itoa(p.Batch)}, "autoAck": {strconv.FormatBool(p.AutoAck)}}
	if partitions := min(p.Batch, p.Partitions); partitions > 1 {
		query.Set("partitions", strconv.Itoa(partitions))
	}
	if group != "" {
		query.Set("consumerGroup", group)
	}
	if wait > 0 {
		query.Set("wait", "true")
		query.Set("timeout", strconv.FormatInt(wait.Milliseconds(), 10))
	}
	at := c.base.JoinPath("/api/v1/pop/queue/", p.Queue)
	at.RawQuery = query.Encode()
	return at
}

// popBuffer holds the answer of a pop and its delivery until the next pop.
type popBuffer struct {
	body     bytes.Buffer
	delivery Delivery
}

// pop sends a pop. The delivery is valid until the next pop with the same buffer.
func (c *Client) pop(ctx context.Context, at *url.URL, into *popBuffer) (*Delivery, error) {
	d := &into.delivery
	*d = Delivery{Messages: d.Messages[:0]}
	resp, err := c.Do(ctx, Request{Method: http.MethodGet, URL: at}, &into.body)
	d.Sent, d.At = resp.Sent, resp.At
	if err != nil || resp.Status == http.StatusNoContent || into.body.Len() == 0 {
		return d, err
	}
	if err := json.Unmarshal(into.body.Bytes(), d); err != nil {
		return d, unreadable("decoding the answer of a pop: %w", err)
	}
	return d, nil
}
