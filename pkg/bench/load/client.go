package load

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

	"github.com/go-json-experiment/json"
)

const (
	// RequestTimeout bounds a request, beyond the time that the server may wait.
	RequestTimeout = 30 * time.Second
	// maxIdle is the age at which an unused connection is replaced. The server may have
	// closed it.
	maxIdle = 30 * time.Second
)

// Client is a minimal HTTP client of the API. A request costs one write and one read, in the
// goroutine of the caller. It is safe for concurrent use.
type Client struct {
	base   *url.URL
	push   *url.URL
	ack    *url.URL
	header string

	mu   sync.Mutex
	idle []*connection
}

// connection carries one request at a time.
type connection struct {
	net.Conn
	reader *bufio.Reader
	out    []byte
	// released is when the last request ended.
	released time.Time
}

// NewClient returns a client of the server at base. It opens a connection if none is idle.
func NewClient(base string) (*Client, error) {
	at, err := url.Parse(strings.TrimSuffix(base, "/") + "/")
	if err != nil {
		return nil, fmt.Errorf("reading the URL: %w", err)
	}
	c := &Client{base: at, push: at.JoinPath("/api/v1/push"), ack: at.JoinPath("/api/v1/ack/batch")}
	c.header = " HTTP/1.1\r\nHost: " + at.Host + "\r\nContent-Type: application/json\r\n"
	if password, ok := at.User.Password(); ok {
		pair := base64.StdEncoding.EncodeToString([]byte(at.User.Username() + ":" + password))
		c.header += "Authorization: Basic " + pair + "\r\n"
	}
	return c, nil
}

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
	c.mu.Lock()
	if n := len(c.idle); n > 0 {
		conn := c.idle[n-1]
		c.idle = c.idle[:n-1]
		c.mu.Unlock()
		if time.Since(conn.released) < maxIdle {
			return conn, nil
		}
		_ = conn.Close() // no request is in flight
	} else {
		c.mu.Unlock()
	}
	dialer := &net.Dialer{Timeout: RequestTimeout}
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
	return &connection{Conn: conn, reader: bufio.NewReaderSize(conn, 16<<10)}, nil
}

func withPort(host, port string) string {
	if _, _, err := net.SplitHostPort(host); err == nil {
		return host
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), port)
}

func (c *Client) release(conn *connection) {
	conn.released = time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = append(c.idle, conn)
}

// Failure is a request without a 2xx answer.
type Failure struct {
	// Kind is the HTTP status, or a word such as timeout if there was none.
	Kind string
	// Refused is set if the server certainly did nothing.
	Refused bool
	err     error
}

func (f *Failure) Error() string { return f.err.Error() }

func (f *Failure) Unwrap() error { return f.err }

// unreadable is the failure of an answer that does not fit the request.
func unreadable(format string, args ...any) error {
	return &Failure{Kind: "unreadable", err: fmt.Errorf(format, args...)}
}

// Request is one HTTP request; without a body if Body is nil.
type Request struct {
	Method string
	URL    *url.URL
	Body   []byte
}

// Response is the status of an answer and the times around the request.
type Response struct {
	Status   int
	Sent, At time.Time
}

// Do sends a request and reads the body of the answer into a buffer. It blocks until all of the
// answer is read or ctx ends, which closes the connection. Every error is a *Failure; an answer
// that is not 2xx is an error.
func (c *Client) Do(ctx context.Context, req Request, into *bytes.Buffer) (Response, error) {
	into.Reset()
	resp := Response{Sent: time.Now()}
	conn, err := c.acquire(ctx)
	if err == nil {
		resp.Status, err = c.exchange(ctx, conn, req, into)
	}
	resp.At = time.Now()
	if err != nil {
		return resp, &Failure{Kind: kindOf(err), err: fmt.Errorf("%s %s: %w", req.Method, req.URL.Path, err)}
	}
	if resp.Status < 200 || resp.Status > 299 {
		const most = 200
		text := bytes.TrimSpace(into.Bytes()[:min(most, into.Len())])
		return resp, &Failure{
			Kind: strconv.Itoa(resp.Status), Refused: resp.Status >= 400 && resp.Status < 500,
			err: fmt.Errorf("%s %s answered %d: %s", req.Method, req.URL.Path, resp.Status, text),
		}
	}
	return resp, nil
}

// exchange sends a request on conn and reads the answer. Then it releases or closes conn.
func (c *Client) exchange(ctx context.Context, conn *connection, req Request, into *bytes.Buffer) (status int, err error) {
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
			_ = conn.Close() // it is not used again
		}
	}()
	out := append(append(append(conn.out[:0], req.Method...), ' '), req.URL.RequestURI()...)
	out = append(out, c.header...)
	if req.Body != nil {
		out = strconv.AppendInt(append(out, "Content-Length: "...), int64(len(req.Body)), 10)
		out = append(out, "\r\n"...)
	}
	conn.out = append(append(out, "\r\n"...), req.Body...)
	if _, err := conn.Write(conn.out); err != nil {
		return 0, fmt.Errorf("sending: %w", err)
	}
	resp, err := http.ReadResponse(conn.reader, &http.Request{Method: req.Method})
	if err != nil {
		return 0, fmt.Errorf("reading the answer: %w", err)
	}
	_, err = into.ReadFrom(resp.Body)
	_ = resp.Body.Close() // it was read to its end, or failed
	if err != nil {
		return 0, fmt.Errorf("reading the answer: %w", err)
	}
	reusable = !resp.Close
	return resp.StatusCode, nil
}

func kindOf(err error) string {
	var network net.Error
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) && network.Timeout() {
		return "timeout"
	}
	return "connection"
}

// URL returns the URL of a path.
func (c *Client) URL(path string) *url.URL { return c.base.JoinPath(path) }

// Call sends a request to a path, which may have a query, and decodes the JSON answer. body nil
// sends no body, into nil ignores the answer. It blocks like Do.
func (c *Client) Call(ctx context.Context, method, path string, body, into any) (Response, error) {
	target, err := url.Parse(path)
	if err != nil {
		return Response{}, fmt.Errorf("reading the path %q: %w", path, err)
	}
	req := Request{Method: method, URL: c.base.JoinPath(target.EscapedPath())}
	req.URL.RawQuery = target.RawQuery
	if body != nil {
		if req.Body, err = json.Marshal(body); err != nil {
			return Response{}, fmt.Errorf("encoding the body of %s: %w", path, err)
		}
	}
	var text bytes.Buffer
	resp, err := c.Do(ctx, req, &text)
	if err != nil || into == nil || text.Len() == 0 {
		return resp, err
	}
	if err := json.Unmarshal(text.Bytes(), into); err != nil {
		return resp, unreadable("decoding the answer of %s: %w", path, err)
	}
	return resp, nil
}

// Configure creates a queue with options, such as leaseTime in seconds.
func (c *Client) Configure(ctx context.Context, queue string, options map[string]int) error {
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	_, err := c.Call(ctx, http.MethodPost, "/api/v1/configure", map[string]any{"queue": queue, "options": options}, nil)
	return err
}

// Delete deletes a queue.
func (c *Client) Delete(ctx context.Context, queue string) error {
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	_, err := c.Call(ctx, http.MethodDelete, "/api/v1/resources/queues/"+url.PathEscape(queue), nil, nil)
	return err
}
