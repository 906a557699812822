package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// requestTimeout bounds a request, beyond the time it was asked to wait.
const requestTimeout = 30 * time.Second

// client speaks the API with as little of its own as possible.
type client struct {
	base   *url.URL
	http   *http.Client
	header http.Header
	push   *url.URL
	ack    *url.URL
}

// newClient keeps as many connections as there are requests at a time.
func newClient(base string, connections int) (*client, error) {
	at, err := url.Parse(strings.TrimSuffix(base, "/") + "/")
	if err != nil {
		return nil, fmt.Errorf("reading the URL: %w", err)
	}
	spare := connections + 10
	return &client{
		base: at, push: at.JoinPath("/api/v1/push"), ack: at.JoinPath("/api/v1/ack/batch"),
		header: http.Header{"Content-Type": {"application/json"}},
		http: &http.Client{Transport: &http.Transport{
			MaxIdleConns: spare, MaxIdleConnsPerHost: spare, DisableCompression: true,
			DialContext: (&net.Dialer{Timeout: requestTimeout}).DialContext,
		}},
	}, nil
}

func (c *client) close() { c.http.CloseIdleConnections() }

// popURL is the address of a pop; wait 0 does not wait.
func (c *client) popURL(queue, group string, batch, partitions int, autoAck bool, wait time.Duration) *url.URL {
	query := url.Values{"batch": {strconv.Itoa(batch)}, "autoAck": {strconv.FormatBool(autoAck)}}
	if partitions > 1 {
		query.Set("partitions", strconv.Itoa(partitions))
	}
	if group != "" {
		query.Set("consumerGroup", group)
	}
	if wait > 0 {
		query.Set("wait", "true")
		query.Set("timeout", strconv.FormatInt(wait.Milliseconds(), 10))
	}
	at := c.base.JoinPath("/api/v1/pop/queue/", queue)
	at.RawQuery = query.Encode()
	return at
}

// failure is a request without a good answer.
type failure struct {
	// kind is the status, or what happened instead of one.
	kind string
	// refused: the server has surely done nothing.
	refused bool
	err     error
}

func (f *failure) Error() string { return f.err.Error() }

func (f *failure) Unwrap() error { return f.err }

// answer frames a request in time.
type answer struct {
	status   int
	sent, at time.Time
}

// do sends a request and reads the answer into a buffer. An answer that is not
// 2xx is a failure. The body must not be changed after a failure: the last try
// to send it may still be under way.
func (c *client) do(ctx context.Context, method string, to *url.URL, body []byte, into *bytes.Buffer) (answer, error) {
	into.Reset()
	req := (&http.Request{
		Method: method, URL: to, Host: to.Host, Header: c.header, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(ctx)
	if body != nil {
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	got := answer{sent: time.Now()}
	resp, err := c.http.Do(req)
	if err != nil {
		got.at = time.Now()
		return got, &failure{kind: kindOf(err), err: err}
	}
	_, err = into.ReadFrom(resp.Body)
	got.status, got.at = resp.StatusCode, time.Now()
	_ = resp.Body.Close()
	if err != nil {
		return got, &failure{kind: kindOf(err), err: fmt.Errorf("reading the answer of %s: %w", to.Path, err)}
	}
	if got.status < 200 || got.status > 299 {
		const most = 200
		text := into.Bytes()[:min(most, into.Len())]
		return got, &failure{
			kind: strconv.Itoa(got.status), refused: got.status >= 400 && got.status < 500,
			err: fmt.Errorf("%s %s answered %s: %s", method, to.Path, resp.Status, bytes.TrimSpace(text)),
		}
	}
	return got, nil
}

func kindOf(err error) string {
	var network net.Error
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) && network.Timeout() {
		return "timeout"
	}
	return "connection"
}

// pop sends a pop; the address says which.
func (c *client) pop(ctx context.Context, at *url.URL, into *bytes.Buffer) (*delivery, error) {
	got, err := c.do(ctx, http.MethodGet, at, nil, into)
	d := &delivery{sent: got.sent, at: got.at}
	if err != nil || got.status == http.StatusNoContent || into.Len() == 0 {
		return d, err
	}
	if err := json.Unmarshal(into.Bytes(), d); err != nil {
		return d, &failure{kind: "unreadable", err: fmt.Errorf("decoding the answer of a pop: %w", err)}
	}
	return d, nil
}

// configure makes a queue.
func (c *client) configure(ctx context.Context, queue string, lease time.Duration) error {
	body := fmt.Appendf(nil, `{"queue":%q,"options":{"leaseTime":%d}}`, queue, int(lease.Seconds()))
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if _, err := c.do(ctx, http.MethodPost, c.base.JoinPath("/api/v1/configure"), body, &bytes.Buffer{}); err != nil {
		return fmt.Errorf("making a queue (does --url lead to a server?): %w", err)
	}
	return nil
}

// remove deletes a queue.
func (c *client) remove(ctx context.Context, queue string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if _, err := c.do(ctx, http.MethodDelete, c.base.JoinPath("/api/v1/resources/queues/", queue), nil, &bytes.Buffer{}); err != nil {
		return fmt.Errorf("deleting the queue %s: %w", queue, err)
	}
	return nil
}
