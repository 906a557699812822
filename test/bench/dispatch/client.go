package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// idleConnections is enough that no connection is ever made twice.
const idleConnections = 20_000

// client speaks the API with as little of its own as possible.
type client struct {
	base string
	http *http.Client
}

func newClient(base string) *client {
	return &client{base: base, http: &http.Client{Transport: &http.Transport{
		MaxIdleConns: idleConnections, MaxIdleConnsPerHost: idleConnections, DisableCompression: true,
		ReadBufferSize: 1 << 10, WriteBufferSize: 1 << 10,
	}}}
}

// idle closes the connections that are not in use.
func (c *client) idle() { c.http.CloseIdleConnections() }

// answer is what came back, and the moment all of it was here.
type answer struct {
	status int
	body   []byte
	at     time.Time
}

// do sends a request; an answer of 400 and above is an error. It blocks until
// the answer is here or ctx ends.
func (c *client) do(ctx context.Context, method, path string, body []byte) (answer, time.Time, error) {
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, reader)
	if err != nil {
		return answer{}, time.Time{}, fmt.Errorf("making a request of %s: %w", path, err)
	}
	sent := time.Now()
	resp, err := c.http.Do(req)
	if err != nil {
		return answer{}, sent, fmt.Errorf("calling %s: %w", path, err)
	}
	text, err := io.ReadAll(resp.Body)
	got := answer{status: resp.StatusCode, body: text, at: time.Now()}
	_ = resp.Body.Close()
	if err != nil {
		return got, sent, fmt.Errorf("reading the answer of %s: %w", path, err)
	}
	if got.status >= http.StatusBadRequest {
		return got, sent, fmt.Errorf("%s answered %s: %s", path, resp.Status, text)
	}
	return got, sent, nil
}

// call sends a request with a JSON body and reads a JSON answer.
func (c *client) call(ctx context.Context, method, path string, body, into any) (got answer, sent time.Time, err error) {
	var text []byte
	if body != nil {
		if text, err = json.Marshal(body); err != nil {
			return got, sent, fmt.Errorf("encoding the body of %s: %w", path, err)
		}
	}
	got, sent, err = c.do(ctx, method, path, text)
	if err != nil || got.status == http.StatusNoContent || into == nil {
		return got, sent, err
	}
	if err := json.Unmarshal(got.body, into); err != nil {
		return got, sent, fmt.Errorf("decoding the answer of %s: %w", path, err)
	}
	return got, sent, nil
}

// item is a message to push. N is its number in its partition, from 0.
type item struct {
	Queue     string `json:"queue"`
	Partition string `json:"partition,omitempty"`
	Payload   number `json:"payload"`
}

type number struct {
	N int `json:"n"`
}

// push stores items; sent and answered frame the call.
func (c *client) push(ctx context.Context, items ...item) (sent, answered time.Time, err error) {
	var results []struct {
		Status string `json:"status"`
	}
	got, sent, err := c.call(ctx, http.MethodPost, "/api/v1/push", map[string]any{"items": items}, &results)
	if err != nil {
		return sent, got.at, err
	}
	for _, result := range results {
		if result.Status != "queued" {
			return sent, got.at, fmt.Errorf("a push was answered with %q", result.Status)
		}
	}
	if len(results) != len(items) {
		return sent, got.at, fmt.Errorf("a push of %d items had %d answers", len(items), len(results))
	}
	return sent, got.at, nil
}

// popCall is a pop. Wait is sent as given; 0 does not wait.
type popCall struct {
	queue, group string
	wait         time.Duration
	batch        int
	autoAck      bool
}

func (p popCall) path() string {
	query := url.Values{}
	if p.wait > 0 {
		query.Set("wait", "true")
		query.Set("timeout", strconv.FormatInt(p.wait.Milliseconds(), 10))
	}
	if p.group != "" {
		query.Set("consumerGroup", p.group)
	}
	query.Set("batch", strconv.Itoa(max(1, p.batch)))
	query.Set("autoAck", strconv.FormatBool(p.autoAck))
	return "/api/v1/pop/queue/" + url.PathEscape(p.queue) + "?" + query.Encode()
}

// delivery is the answer of a pop; no messages when there were none.
type delivery struct {
	LeaseID  string    `json:"leaseId"`
	Messages []message `json:"messages"`

	sent, at time.Time
}

type message struct {
	TransactionID string    `json:"transactionId"`
	PartitionID   string    `json:"partitionId"`
	Partition     string    `json:"partition"`
	CreatedAt     time.Time `json:"createdAt"`
	Data          number    `json:"data"`
}

func (c *client) pop(ctx context.Context, p popCall) (delivery, error) {
	var d delivery
	got, sent, err := c.call(ctx, http.MethodGet, p.path(), nil, &d)
	d.sent, d.at = sent, got.at
	return d, err
}

// ack completes all messages of a delivery.
func (c *client) ack(ctx context.Context, d delivery, group string) error {
	type one struct {
		TransactionID string `json:"transactionId"`
		PartitionID   string `json:"partitionId"`
		LeaseID       string `json:"leaseId"`
	}
	acks := make([]one, len(d.Messages))
	for i, m := range d.Messages {
		acks[i] = one{m.TransactionID, m.PartitionID, d.LeaseID}
	}
	body := map[string]any{"acknowledgments": acks}
	if group != "" {
		body["consumerGroup"] = group
	}
	var results []struct {
		Success bool    `json:"success"`
		Error   *string `json:"error"`
	}
	if _, _, err := c.call(ctx, http.MethodPost, "/api/v1/ack/batch", body, &results); err != nil {
		return err
	}
	for _, result := range results {
		if !result.Success {
			reason := "no reason given"
			if result.Error != nil {
				reason = *result.Error
			}
			return fmt.Errorf("an ack was refused: %s", reason)
		}
	}
	return nil
}

// configure makes a queue with these options.
func (c *client) configure(ctx context.Context, queue string, options map[string]int) error {
	_, _, err := c.call(ctx, http.MethodPost, "/api/v1/configure", map[string]any{"queue": queue, "options": options}, nil)
	return err
}

type health struct {
	Waiting  int `json:"waiting"`
	Listener struct {
		State string `json:"state"`
	} `json:"listener"`
}

func (c *client) health(ctx context.Context) (health, error) {
	var h health
	_, _, err := c.call(ctx, http.MethodGet, "/health", nil, &h)
	return h, err
}

// metric returns a metric without labels.
func (c *client) metric(ctx context.Context, name string) (float64, error) {
	got, _, err := c.do(ctx, http.MethodGet, "/metrics/prometheus", nil)
	if err != nil {
		return 0, err
	}
	lines := bufio.NewScanner(bytes.NewReader(got.body))
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			value, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return 0, fmt.Errorf("reading the metric %s: %w", name, err)
			}
			return value, nil
		}
	}
	return 0, fmt.Errorf("the server has no metric %s", name)
}
