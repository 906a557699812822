package httpapi_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/httpapi"
	"github.com/belfry-mq/belfry/pkg/httpapi/data"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/apitest"
	"github.com/belfry-mq/belfry/test/stopwatch"
)

// limit is a time limit of these tests.
const limit = 150 * time.Millisecond

// connection sends and reads raw HTTP.
type connection struct {
	net.Conn
	t *testing.T
	r *bufio.Reader
}

func (c *client) dial() *connection {
	c.t.Helper()
	_, address, _ := strings.Cut(c.base, "://")
	conn, err := new(net.Dialer).DialContext(c.t.Context(), "tcp", address)
	require.NoError(c.t, err)
	if c.tls != nil {
		conn = tls.Client(conn, c.tls)
	}
	c.t.Cleanup(func() { _ = conn.Close() })
	require.NoError(c.t, conn.SetDeadline(time.Now().Add(30*time.Second)))
	return &connection{Conn: conn, t: c.t, r: bufio.NewReader(conn)}
}

func (c *connection) send(format string, args ...any) {
	c.t.Helper()
	_, err := fmt.Fprintf(c, format, args...)
	require.NoError(c.t, err)
}

func (c *connection) answer() response {
	c.t.Helper()
	resp, err := http.ReadResponse(c.r, nil)
	require.NoError(c.t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(c.t, err)
	require.NoError(c.t, resp.Body.Close())
	return response{status: resp.StatusCode, body: string(body)}
}

// closed waits until the server closes the connection.
func (c *connection) closed() {
	c.t.Helper()
	for {
		if _, err := c.r.ReadByte(); err != nil {
			require.NotErrorIs(c.t, err, os.ErrDeadlineExceeded, "the server did not close the connection")
			return
		}
	}
}

// trickle sends a byte at a time until the server closes the connection.
func (c *connection) trickle() {
	ticker := time.NewTicker(limit / 30)
	defer ticker.Stop()
	for {
		if _, err := c.Write([]byte("x")); err != nil {
			return
		}
		select {
		case <-ticker.C:
		case <-c.t.Context().Done():
			return
		}
	}
}

func withLimits(cfg *httpapi.Config, _ *httpapi.Deps) {
	cfg.BodyTimeout, cfg.WriteTimeout = limit, limit
}

func TestSlowBodyIsRefusedAndStoresNothing(t *testing.T) {
	t.Parallel()
	for name, length := range map[string]string{"with a length": "Content-Length: 1000", "in chunks": "Transfer-Encoding: chunked"} {
		f := &apitest.Fakes{}
		s, _ := apitest.Server(f, withLimits)
		conn := serve(t, s).dial()
		conn.send("POST /api/v1/push HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n1", length)
		resp := conn.answer()
		require.Equal(t, http.StatusRequestTimeout, resp.status, name)
		require.JSONEq(t, `{"error":"the body did not arrive in time: send fewer items per call, or raise http.body_timeout"}`, resp.body)
		conn.closed()
		require.False(t, f.Reached(), name)
	}
}

// A server reads a part of a body that no handler reads. The time limit applies to this body too.
func TestASlowBodyThatNoHandlerReadsIsLimited(t *testing.T) {
	t.Parallel()
	for _, head := range []string{"POST /nothing", "GET /health", "GET /api/v1/push", "POST /api/v1/lease/x/extend"} {
		s, _ := apitest.Server(&apitest.Fakes{}, withLimits)
		conn := serve(t, s).dial()
		conn.send("%s HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n", head)
		go conn.trickle()
		conn.closed()
	}
}

// wait blocks longer than every limit. It returns an error if ctx ends.
func wait(ctx context.Context) error {
	timer := time.NewTimer(3 * limit)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// slowPusher stores a push after a wait.
type slowPusher struct{ data.Pusher }

func (v slowPusher) Push(ctx context.Context, items []queue.PushItem) ([]queue.PushResult, error) {
	if err := wait(ctx); err != nil {
		return nil, err
	}
	return v.Pusher.Push(ctx, items)
}

// The limits do not include the time that a request waits inside the server. A connection that was
// idle longer than the limits can be used for further requests.
func TestTimeLimitsExcludeTheWaitInsideTheServer(t *testing.T) {
	t.Parallel()
	f := &apitest.Fakes{Pop: func(ctx context.Context, _ *queue.PopRequest) (queue.Delivery, error) {
		return apitest.OneMessage(), wait(ctx)
	}}
	s, _ := apitest.Server(f, withLimits, func(_ *httpapi.Config, deps *httpapi.Deps) { deps.Pusher = slowPusher{deps.Pusher} })
	conn := serve(t, s).dial()
	conn.send("GET %s?wait=true HTTP/1.1\r\nHost: x\r\n\r\n", popPath)
	require.Equal(t, http.StatusOK, conn.answer().status)
	push := "POST /api/v1/push HTTP/1.1\r\nHost: x\r\nContent-Length: 42\r\n"
	require.Len(t, apitest.OnePush, 42)
	for range 2 {
		conn.send("%s\r\n%s", push, apitest.OnePush)
		require.Equal(t, http.StatusCreated, conn.answer().status)
		require.NoError(t, wait(t.Context()))
	}
	watch := stopwatch.Start(t)
	conn.send("%sExpect: 100-continue\r\n\r\n", push)
	require.Equal(t, http.StatusContinue, conn.answer().status)
	conn.send("%s", apitest.OnePush)
	if status := conn.answer().status; status != http.StatusRequestTimeout || watch.Allowed(0) < limit { // the machine paused before the body
		require.Equal(t, http.StatusCreated, status)
	}
}

// releases reports the leases that are released.
type releases struct {
	httpapi.Popper
	released chan queue.ID
}

func (r releases) Release(_ context.Context, delivery *queue.Delivery) {
	r.released <- delivery.LeaseID
}

// large returns a delivery that is larger than every socket buffer.
func large() queue.Delivery {
	d := apitest.OneMessage()
	d.Messages[0].Payload = []byte(`"` + strings.Repeat("x", 32<<20) + `"`)
	return d
}

func TestClientThatStopsReadingLosesItsLease(t *testing.T) {
	t.Parallel()
	leases := releases{released: make(chan queue.ID, 1)}
	s, _ := apitest.Server(&apitest.Fakes{Pop: apitest.Deliver(large())}, withLimits, func(_ *httpapi.Config, deps *httpapi.Deps) {
		leases.Popper = deps.Popper
		deps.Popper = leases
	})
	c := serve(t, s)
	conn := c.dial()
	conn.send("GET %s HTTP/1.1\r\nHost: x\r\n\r\n", popPath)
	require.Equal(t, apitest.IDThree, within(t, leases.released))
	conn.closed()
	require.Contains(t, c.get("/metrics/prometheus").body, `{route="/api/v1/pop/queue/:queue",status="499"} 1`)
}

// A stop ends within shutdown_timeout and without an error, even if clients do not read answers, or send
// headers or bodies slowly, or send nothing.
func TestStalledClientsDoNotDelayTheStop(t *testing.T) {
	t.Parallel()
	t.Run("plain", func(t *testing.T) {
		t.Parallel()
		stopWithStalledClients(t, nil, func(*httpapi.Config, *httpapi.Deps) {})
	})
	t.Run("TLS", func(t *testing.T) {
		t.Parallel()
		f := newSecure(t)
		stopWithStalledClients(t, f.client(), f.edit)
	})
}

func stopWithStalledClients(t *testing.T, config *tls.Config, edit func(*httpapi.Config, *httpapi.Deps)) {
	t.Helper()
	const timeout = 3 * time.Second
	inside := make(chan struct{}, 1)
	s, _ := apitest.Server(&apitest.Fakes{Pop: func(context.Context, *queue.PopRequest) (queue.Delivery, error) {
		inside <- struct{}{}
		return large(), nil
	}}, edit, func(cfg *httpapi.Config, _ *httpapi.Deps) { cfg.ShutdownTimeout = timeout })
	c := serveTLS(t, s, config)
	(&client{t: t, base: c.base}).dial().send("\x16") // a handshake, for a server with TLS
	for _, request := range []string{
		"GET " + popPath + " HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST /nothing HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n1", "GET /hea", "",
	} {
		c.dial().send("%s", request)
	}
	slow := c.dial()
	slow.send("POST /api/v1/push HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\nExpect: 100-continue\r\n\r\n")
	require.Equal(t, http.StatusContinue, slow.answer().status, "the server waits for the body")
	within(t, inside)
	watch := stopwatch.Start(t)
	err := s.Shutdown(context.Background())
	watch.Within(t, timeout, "a stop with stalled clients")
	if err != nil && watch.Allowed(0) > timeout { // the machine paused while the server closed the connections
		return
	}
	require.NoError(t, err)
	require.NoError(t, within(t, c.served))
	require.Equal(t, http.StatusRequestTimeout, slow.answer().status)
}

func TestConnectionsAreLimited(t *testing.T) {
	t.Parallel()
	s, _ := apitest.Server(&apitest.Fakes{}, func(cfg *httpapi.Config, _ *httpapi.Deps) { cfg.MaxConnections = 2 })
	c := serve(t, s)
	ask := func(conn *connection) int {
		conn.send("GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
		return conn.answer().status
	}
	first, second := c.dial(), c.dial()
	require.Equal(t, http.StatusOK, ask(first))
	require.Equal(t, http.StatusOK, ask(second))
	third := c.dial()
	third.send("GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
	resp, err := http.ReadResponse(third.r, nil)
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	require.Equal(t, "1", resp.Header.Get("Retry-After"))
	require.Contains(t, string(body), "http.max_connections")
	third.closed()

	first.send("GET /metrics/prometheus HTTP/1.1\r\nHost: x\r\n\r\n")
	require.Contains(t, first.answer().body, "belfry_http_connections_refused_total 1\n")
	require.NoError(t, second.Close())
	require.Eventually(t, func() bool { return c.try("/health").status == http.StatusOK }, 30*time.Second, time.Millisecond,
		"after the close of a connection, another connection is accepted")
}

func TestHeadersAreLimited(t *testing.T) {
	t.Parallel()
	s, _ := apitest.Server(&apitest.Fakes{}, func(cfg *httpapi.Config, _ *httpapi.Deps) { cfg.MaxHeaderBytes = 4096 })
	c := serve(t, s)
	for size, status := range map[int]int{2000: http.StatusOK, 20_000: http.StatusRequestHeaderFieldsTooLarge} {
		conn := c.dial()
		conn.send("GET /health HTTP/1.1\r\nHost: x\r\nX: %s\r\n\r\n", strings.Repeat("x", size))
		require.Equal(t, status, conn.answer().status)
	}
}
