package httpapi_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/httpapi"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/apitest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestHealthReportsWhetherTheServerCanWork(t *testing.T) {
	t.Parallel()
	f := &apitest.Fakes{Waiting: 7, Listener: httpapi.ListenerState{Listener: api.Listener{State: "proven", SecondsSinceProof: 1.5, Reconnects: 2, Peers: 1}}}
	rec := apitest.Call(f, "GET", "/health", "")
	require.Equal(t, 200, rec.Code)
	require.JSONEq(t, `{"status":"healthy","database":"connected","server":"belfry","version":"1.2.3","waiting":7,
		"listener":{"state":"proven","secondsSinceProof":1.5},`+instance(true, 1)+`}`, rec.Body.String())

	require.Equal(t, 200, apitest.Call(f, "HEAD", "/health", "").Code, "some load balancers send HEAD")

	rec = apitest.Call(&apitest.Fakes{Ping: func(context.Context) error { return errors.New("no") }}, "GET", "/health", "")
	require.Equal(t, 503, rec.Code)
	require.JSONEq(t, `{"status":"unhealthy","database":"disconnected","server":"belfry","version":"1.2.3","waiting":0,
		"listener":{"state":"","secondsSinceProof":0},`+instance(false, 0)+`}`, rec.Body.String())
}

// instance returns the members of /health that Queen MQ has too.
func instance(running bool, peers int) string {
	return fmt.Sprintf(`"worker_id":%[1]d,"queen":{"worker_id":%[1]d,"status":"active"},"shared_state":{"enabled":true,"running":%[2]t,"server_id":null,
		"queue_config_cache":{"size":0,"hits":0,"misses":0,"hit_rate":0},"maintenance_mode":false,"pop_maintenance_mode":false,
		"server_health":{"servers_tracked":%[3]d,"servers_alive":%[3]d,"servers_dead":0,"heartbeats_received":0,"restarts_detected":0}}`, os.Getpid(), running, peers)
}

func TestHealthReportsAStoppingServer(t *testing.T) {
	t.Parallel()
	s, _ := apitest.Server(&apitest.Fakes{})
	s.Drain()
	client := serve(t, s)
	resp := client.get("/health")
	require.Equal(t, 503, resp.status)
	require.Contains(t, resp.body, `"status":"stopping","database":"connected"`)
	require.Equal(t, 204, client.get("/api/v1/pop/queue/q").status, "the server still serves requests")
}

// client sends requests to a server that listens on a port.
type client struct {
	t    *testing.T
	base string
	http *http.Client
	// served receives the result of Serve.
	served chan error
	// tls has the TLS settings of the client, or is nil.
	tls *tls.Config
	// internal is the URL of http.internal_addr, or "".
	internal string
}

type response struct {
	status int
	body   string
	err    error
}

// serve runs s until the test ends.
func serve(t *testing.T, s *httpapi.Server) *client {
	t.Helper()
	return serveTLS(t, s, nil)
}

// serveTLS is like serve, for a server with TLS. If config is nil, the server has no TLS.
func serveTLS(t *testing.T, s *httpapi.Server, config *tls.Config) *client {
	t.Helper()
	ln, err := s.Listen(t.Context())
	require.NoError(t, err)
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	c := &client{t: t, base: "http://" + ln.Addr().String(), http: &http.Client{Transport: transport}, served: make(chan error, 1), tls: config}
	if config != nil {
		c.base = "https://" + ln.Addr().String()
	}
	if ln.Internal != nil {
		c.internal = "http://" + ln.Internal.Addr().String()
	}
	go func() { c.served <- s.Serve(ln) }()
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = s.Shutdown(ended) // closes the connections at once
	})
	return c
}

func (c *client) try(path string) response {
	return c.send(http.MethodGet, c.base+path, "")
}

func (c *client) send(method, url, sent string) response {
	r, err := http.NewRequestWithContext(context.Background(), method, url, strings.NewReader(sent))
	if err != nil {
		return response{err: err}
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return response{err: err}
	}
	body, err := io.ReadAll(resp.Body)
	return response{resp.StatusCode, string(body), errors.Join(err, resp.Body.Close())}
}

func (c *client) get(path string) response {
	c.t.Helper()
	resp := c.try(path)
	require.NoError(c.t, resp.err)
	return resp
}

// within receives a value that must arrive within 30 seconds.
func within[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	timer := time.NewTimer(30 * time.Second)
	defer timer.Stop()
	select {
	case value := <-from:
		return value
	case <-timer.C:
		require.Fail(t, "no value arrived within 30 seconds")
		panic("unreachable")
	}
}

func TestPortInUseIsAnErrorWithAdvice(t *testing.T) {
	t.Parallel()
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = taken.Close() }()
	s, _ := apitest.Server(&apitest.Fakes{}, func(cfg *httpapi.Config, _ *httpapi.Deps) { cfg.Addr = taken.Addr().String() })
	_, err = s.Listen(t.Context())
	require.ErrorContains(t, err, "listening on "+taken.Addr().String()+" (http.addr)")
	require.ErrorContains(t, err, "--http-addr")
}

func TestShutdownWaitsForRequestsInFlight(t *testing.T) {
	t.Parallel()
	inside, finish := make(chan struct{}), make(chan struct{})
	s, _ := apitest.Server(&apitest.Fakes{Pop: func(context.Context, *queue.PopRequest) (queue.Delivery, error) {
		close(inside)
		<-finish
		return apitest.OneMessage(), nil
	}})
	c := serve(t, s)
	answered := make(chan response, 1)
	go func() { answered <- c.try("/api/v1/pop/queue/q") }()
	within(t, inside)
	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown(context.Background()) }()
	require.NoError(t, within(t, c.served), "Serve returns when the server accepts no new requests")
	require.Error(t, c.try("/health").err, "the server accepts no new requests")
	select {
	case err := <-stopped:
		require.Fail(t, "Shutdown did not wait", "%v", err)
	default:
	}
	close(finish)
	resp := within(t, answered)
	require.NoError(t, resp.err)
	require.Equal(t, 200, resp.status)
	require.NoError(t, within(t, stopped))
}

func TestShutdownClosesRequestsAfterTheTimeout(t *testing.T) {
	t.Parallel()
	inside, left := make(chan struct{}), make(chan struct{})
	s, _ := apitest.Server(&apitest.Fakes{Pop: func(ctx context.Context, _ *queue.PopRequest) (queue.Delivery, error) {
		close(inside)
		<-ctx.Done()
		close(left)
		return queue.Delivery{}, ctx.Err()
	}}, func(cfg *httpapi.Config, _ *httpapi.Deps) { cfg.ShutdownTimeout = 20 * time.Millisecond })
	c := serve(t, s)
	answered := make(chan response, 1)
	go func() { answered <- c.try("/api/v1/pop/queue/q") }()
	within(t, inside)
	err := s.Shutdown(context.Background())
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "http.shutdown_timeout")
	require.Error(t, within(t, answered).err)
	within(t, left)
	require.NoError(t, within(t, c.served))
}

func TestServingOnAClosedListenerIsAnError(t *testing.T) {
	t.Parallel()
	s := httpapi.New(httpapi.Config{Addr: "127.0.0.1:0"}, httpapi.StartDeps{Log: zap.NewNop(), Metrics: apitest.NewMetrics(prometheus.NewRegistry())})
	ln, err := s.Listen(t.Context())
	require.NoError(t, err)
	require.NoError(t, ln.Close())
	require.ErrorContains(t, s.Serve(ln), "serving on 127.0.0.1:")
}

func TestConfigReportsEveryInvalidValue(t *testing.T) {
	t.Parallel()
	cfg := httpapi.DefaultConfig()
	require.NoError(t, cfg.Validate())
	err := httpapi.Config{DrainDelay: -1, MaxBodyBytes: 1023, MaxHeaderBytes: 4095, MaxConnections: 1_000_001}.Validate()
	for _, key := range []string{
		`http.addr is ""`, "http.max_body_bytes is 1023", "http.max_response_bytes is 0", "http.max_inflight_bytes is 0", "http.drain_delay is -1ns", "http.shutdown_timeout is 0s", "http.body_timeout is 0s", "http.write_timeout is 0s",
		"http.max_connections is 1000001", "http.max_header_bytes is 4095",
		"http.max_items is 0", "http.max_partitions is 0", "http.max_acks is 0",
	} {
		require.ErrorContains(t, err, key)
	}
	for _, cfg.Addr = range []string{"6632", "localhost", "::1:80", ":http", ":65536", ":-1", "h:"} {
		require.ErrorContains(t, cfg.Validate(), "it must be host:port or :port", cfg.Addr)
	}
	for _, cfg.Addr = range []string{"[::1]:65535", ":0"} {
		require.NoError(t, cfg.Validate())
	}
	require.NoError(t, httpapi.Config{
		Addr: ":0", MaxBodyBytes: 1024, MaxResponseBytes: 1024, MaxInflightBytes: 1024, ShutdownTimeout: 1, BodyTimeout: 1, WriteTimeout: 1, MaxConnections: 1, MaxHeaderBytes: 4096,
		MaxItems: 1, MaxPartitions: 1, MaxAcks: 1, TLSClientAuth: "optional", TLSClientRole: "admin",
	}.Validate())
}
