package bench

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// requestTimeout bounds a request, beyond the time it was asked to wait.
const requestTimeout = 30 * time.Second

// client speaks the API with as little of its own as possible: a request costs
// one write and one read, in the goroutine that wants it.
type client struct {
	base   *url.URL
	push   *url.URL
	ack    *url.URL
	header string

	mu   sync.Mutex
	idle []*line
}

// line is a connection that carries one request at a time.
type line struct {
	net.Conn
	reader *bufio.Reader
	out    []byte
}

// newClient opens a connection whenever there is none to spare.
func newClient(base string) (*client, error) {
	at, err := url.Parse(strings.TrimSuffix(base, "/") + "/")
	if err != nil {
		return nil, fmt.Errorf("reading the URL: %w", err)
	}
	c := &client{base: at, push: at.JoinPath("/api/v1/push"), ack: at.JoinPath("/api/v1/ack/batch")}
	c.header = " HTTP/1.1\r\nHost: " + at.Host + "\r\nContent-Type: application/json\r\n"
	if password, ok := at.User.Password(); ok {
		pair := base64.StdEncoding.EncodeToString([]byte(at.User.Username() + ":" + password))
		c.header += "Authorization: Basic " + pair + "\r\n"
	}
	return c, nil
}

// close closes the connections that carry nothing.
func (c *client) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.idle {
		_ = l.Close() // nothing is under way on it
	}
	c.idle = nil
}

func (c *client) take(ctx context.Context) (*line, error) {
	c.mu.Lock()
	if n := len(c.idle); n > 0 {
		l := c.idle[n-1]
		c.idle = c.idle[:n-1]
		c.mu.Unlock()
		return l, nil
	}
	c.mu.Unlock()
	dialer := &net.Dialer{Timeout: requestTimeout}
	var conn net.Conn
	var err error
	if c.base.Scheme == "https" {
		conn, err = (&tls.Dialer{NetDialer: dialer}).DialContext(ctx, "tcp", withPort(c.base.Host, "443"))
	} else {
		conn, err = dialer.DialContext(ctx, "tcp", withPort(c.base.Host, "80"))
	}
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	return &line{Conn: conn, reader: bufio.NewReaderSize(conn, 16<<10)}, nil
}

func withPort(host, port string) string {
	if _, _, err := net.SplitHostPort(host); err == nil {
		return host
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), port)
}

func (c *client) give(l *line) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = append(c.idle, l)
}

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
// 2xx is a failure. The end of ctx closes the connection.
func (c *client) do(ctx context.Context, method string, to *url.URL, body []byte, into *bytes.Buffer) (answer, error) {
	into.Reset()
	got := answer{sent: time.Now()}
	l, err := c.take(ctx)
	if err == nil {
		got.status, err = c.exchange(ctx, l, method, to, body, into)
	}
	got.at = time.Now()
	if err != nil {
		return got, &failure{kind: kindOf(err), err: fmt.Errorf("%s %s: %w", method, to.Path, err)}
	}
	if got.status < 200 || got.status > 299 {
		const most = 200
		text := into.Bytes()[:min(most, into.Len())]
		return got, &failure{
			kind: strconv.Itoa(got.status), refused: got.status >= 400 && got.status < 500,
			err: fmt.Errorf("%s %s answered %d: %s", method, to.Path, got.status, bytes.TrimSpace(text)),
		}
	}
	return got, nil
}

// exchange sends a request on l and reads the answer. Afterwards l is to spare,
// or closed.
func (c *client) exchange(
	ctx context.Context, l *line, method string, to *url.URL, body []byte, into *bytes.Buffer,
) (status int, err error) {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() }) // what was under way fails by it
	spare := false
	defer func() {
		ended := !stop()
		if err != nil && ended {
			err = context.Cause(ctx)
		}
		if err == nil && spare && !ended {
			c.give(l)
		} else {
			_ = l.Close() // it is of no use any more
		}
	}()
	l.out = append(append(append(l.out[:0], method...), ' '), to.RequestURI()...)
	l.out = append(l.out, c.header...)
	if body != nil {
		l.out = strconv.AppendInt(append(l.out, "Content-Length: "...), int64(len(body)), 10)
		l.out = append(l.out, "\r\n"...)
	}
	l.out = append(append(l.out, "\r\n"...), body...)
	if _, err := l.Write(l.out); err != nil {
		return 0, fmt.Errorf("sending: %w", err)
	}
	resp, err := http.ReadResponse(l.reader, &http.Request{Method: method})
	if err != nil {
		return 0, fmt.Errorf("reading the answer: %w", err)
	}
	_, err = into.ReadFrom(resp.Body)
	_ = resp.Body.Close() // it was read to its end, or failed
	if err != nil {
		return 0, fmt.Errorf("reading the answer: %w", err)
	}
	spare = !resp.Close
	return resp.StatusCode, nil
}

func kindOf(err error) string {
	var network net.Error
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) && network.Timeout() {
		return "timeout"
	}
	return "connection"
}

// pop sends a pop; the address says which. The delivery is good until the next
// answer comes into the same place.
func (c *client) pop(ctx context.Context, at *url.URL, into *inbound) (*delivery, error) {
	d := &into.delivery
	*d = delivery{LeaseID: missing, Messages: d.Messages[:0]}
	got, err := c.do(ctx, http.MethodGet, at, nil, &into.body)
	d.sent, d.at = got.sent, got.at
	if err != nil || got.status == http.StatusNoContent || into.body.Len() == 0 {
		return d, err
	}
	if err := into.decode(); err != nil {
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
