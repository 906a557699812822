package load

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
)

const (
	// RequestTimeout is the maximum time of a request, in addition to the time that the server may wait for messages.
	RequestTimeout = 30 * time.Second
	// maxIdle is the maximum age of an unused connection. An older connection is replaced, because the server may
	// have closed it.
	maxIdle = 30 * time.Second
)

// Client is a minimal HTTP client of the API. It works in the goroutine of the caller and never
// repeats a request. It is safe for concurrent use.
type Client struct {
	base   *url.URL
	header http.Header
	// dial opens a connection to address.
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
	address string

	mu   sync.Mutex
	idle []*connection
}

// connection is an HTTP connection that carries one request at a time.
type connection struct {
	net.Conn
	*bufio.ReadWriter
	// released is the time when the last request ended.
	released time.Time
}

// NewClient returns a client of the server at base. The client opens a connection if none is idle. It verifies an
// https server with secure, or with the CAs of this machine if secure is nil.
func NewClient(base string, secure *tls.Config) (*Client, error) {
	at, err := url.Parse(strings.TrimSuffix(base, "/") + "/")
	if err != nil {
		return nil, fmt.Errorf("reading the URL: %w", err)
	}
	c := &Client{base: at, header: http.Header{"Content-Type": {"application/json"}}}
	if password, ok := at.User.Password(); ok {
		(&http.Request{Header: c.header}).SetBasicAuth(at.User.Username(), password)
	}
	dialer := &net.Dialer{Timeout: RequestTimeout}
	c.dial, c.address = dialer.DialContext, net.JoinHostPort(at.Hostname(), cmp.Or(at.Port(), "80"))
	if at.Scheme == "https" {
		c.dial, c.address = (&tls.Dialer{NetDialer: dialer, Config: secure}).DialContext, net.JoinHostPort(at.Hostname(), cmp.Or(at.Port(), "443"))
	}
	return c, nil
}

// Authorize sends a token with each later request. The caller must call Authorize before the first request.
func (c *Client) Authorize(token string) { c.header.Set("Authorization", "Bearer "+token) }

// Close closes the idle connections.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.idle {
		_ = conn.Close() // no request is in flight
	}
	c.idle = nil
}

func (c *Client) acquire(ctx context.Context) (*connection, error) {
	if conn := c.takeIdle(); conn != nil {
		if time.Since(conn.released) < maxIdle {
			return conn, nil
		}
		_ = conn.Close() // no request is in flight
	}
	conn, err := c.dial(ctx, "tcp", c.address)
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	const size = 16 << 10
	buffers := bufio.NewReadWriter(bufio.NewReaderSize(conn, size), bufio.NewWriterSize(conn, size))
	return &connection{Conn: conn, ReadWriter: buffers}, nil
}

// takeIdle returns the idle connection with the latest use, or nil.
func (c *Client) takeIdle() *connection {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.idle)
	if n == 0 {
		return nil
	}
	conn := c.idle[n-1]
	c.idle = c.idle[:n-1]
	return conn
}

func (c *Client) release(conn *connection) {
	conn.released = time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = append(c.idle, conn)
}

// Failure is the error of a request without a 2xx answer.
type Failure struct {
	// Kind is the HTTP status, or a word such as timeout if there is no status.
	Kind string
	// Refused is true if the server has certainly changed nothing.
	Refused bool
	error
}

func (f *Failure) Unwrap() error { return f.error }

// unreadable returns the error for an answer that does not match the request.
func unreadable(format string, args ...any) error {
	return &Failure{Kind: "unreadable", error: fmt.Errorf(format, args...)}
}

// Response has the status of an answer and the times of the request and the answer.
type Response struct {
	Status   int
	Sent, At time.Time
}

// Do sends a request and reads the body of the answer into a buffer. A nil body means a request without a body. Do
// blocks until the answer is read completely or ctx ends. The end of ctx closes the connection. Every error is a
// *Failure, also for an answer without a 2xx status.
func (c *Client) Do(ctx context.Context, method string, to *url.URL, body []byte, into *bytes.Buffer) (Response, error) {
	into.Reset()
	req := &http.Request{Method: method, URL: to, Header: c.header}
	if body != nil {
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	resp := Response{Sent: time.Now()}
	conn, err := c.acquire(ctx)
	if err == nil {
		resp.Status, err = c.exchange(ctx, conn, req, into)
	}
	resp.At = time.Now()
	if err != nil {
		kind := "connection"
		var network net.Error
		if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) && network.Timeout() {
			kind = "timeout"
		}
		return resp, &Failure{Kind: kind, error: fmt.Errorf("%s %s: %w", method, to.Path, err)}
	}
	if resp.Status < 200 || resp.Status > 299 {
		const most = 200
		text := bytes.TrimSpace(into.Bytes()[:min(most, into.Len())])
		return resp, &Failure{
			Kind: strconv.Itoa(resp.Status), Refused: resp.Status >= 400 && resp.Status < 500,
			error: fmt.Errorf("%s %s answered %d: %s", method, to.Path, resp.Status, text),
		}
	}
	return resp, nil
}

// exchange sends a request on conn and reads the answer. Then it releases or closes conn.
func (c *Client) exchange(ctx context.Context, conn *connection, req *http.Request, into *bytes.Buffer) (status int, err error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // the pending read or write fails
	reusable := false
	defer func() {
		ended := !stop()
		if err != nil && ended {
			err = context.Cause(ctx)
		}
		if err == nil && reusable && !ended {
			c.release(conn)
		} else {
			_ = conn.Close() // the connection cannot be used again
		}
	}()
	if err := errors.Join(req.Write(conn.Writer), conn.Flush()); err != nil {
		return 0, fmt.Errorf("sending: %w", err)
	}
	resp, err := http.ReadResponse(conn.Reader, req)
	if err != nil {
		return 0, fmt.Errorf("reading the answer: %w", err)
	}
	_, err = into.ReadFrom(resp.Body)
	_ = resp.Body.Close() // the body was read completely, or the read failed
	if err != nil {
		return 0, fmt.Errorf("reading the answer: %w", err)
	}
	reusable = !resp.Close
	return resp.StatusCode, nil
}

// URL returns the URL of a path.
func (c *Client) URL(path string) *url.URL { return c.base.JoinPath(path) }

// Configure creates a queue with options, such as leaseTime in seconds.
func (c *Client) Configure(ctx context.Context, queue string, options map[string]int) error {
	body, err := json.Marshal(map[string]any{"queue": queue, "options": options})
	if err != nil {
		return fmt.Errorf("encoding the options of %s: %w", queue, err)
	}
	return c.admin(ctx, http.MethodPost, "/api/v1/configure", body)
}

// Delete deletes a queue.
func (c *Client) Delete(ctx context.Context, queue string) error {
	return c.admin(ctx, http.MethodDelete, "/api/v1/resources/queues/"+url.PathEscape(queue), nil)
}

func (c *Client) admin(ctx context.Context, method, path string, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	_, err := c.Do(ctx, method, c.URL(path), body, &bytes.Buffer{})
	return err
}
