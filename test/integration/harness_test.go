package integration_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/pkg/app"
	"github.com/belfry-mq/belfry/test/contract"
	"github.com/belfry-mq/belfry/test/pgtest"
)

const (
	// patience bounds what must happen soon but has no time of its own: shared
	// machines pause.
	patience = 30 * time.Second
	// lookInterval is the pause between two looks of until.
	lookInterval = 10 * time.Millisecond
)

// server is one running instance. Its methods may be called from several
// goroutines.
type server struct {
	dsn  string
	base string
	http *http.Client

	cancel context.CancelFunc
	addr   chan net.Addr
	// done closes when app.Run has returned, and err is what it returned.
	done chan struct{}
	err  error
}

// document is the OpenAPI document, compiled once.
var document = sync.OnceValues(contract.Load)

// documented returns a client that fails t when what it sends and receives is
// not as the OpenAPI document says.
func documented(t *testing.T, base http.RoundTripper) *http.Client {
	t.Helper()
	loaded, err := document()
	require.NoError(t, err)
	return &http.Client{Transport: &contract.Transport{
		Base: base, Document: loaded, Complain: func(complaint string) { t.Error(complaint) },
	}}
}

// start runs a server on a database of its own and stops it when t ends.
func start(t *testing.T, options ...func(*config.Config)) *server {
	t.Helper()
	return startOn(t, pgtest.Database(t), options...)
}

// startOn runs a server on a given database.
func startOn(t *testing.T, dsn string, options ...func(*config.Config)) *server {
	t.Helper()
	s := launch(t, dsn, options...)
	s.ready(t)
	return s
}

// launch begins the start of a server; ready waits for its end.
func launch(t *testing.T, dsn string, options ...func(*config.Config)) *server {
	t.Helper()
	cfg := config.Default()
	cfg.Database.URL = dsn
	cfg.Database.PoolSize = 8
	cfg.Database.RequestTimeout = patience
	cfg.HTTP.Addr = "127.0.0.1:0"
	for _, option := range options {
		option(&cfg)
	}
	require.NoError(t, cfg.Validate())

	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	s := &server{
		dsn: dsn, cancel: cancel, addr: make(chan net.Addr, 1), done: make(chan struct{}),
		http: documented(t, &http.Transport{MaxIdleConnsPerHost: 100}),
	}
	log := zaptest.NewLogger(t, zaptest.Level(zap.ErrorLevel))
	go func() {
		defer close(s.done)
		s.err = app.Run(ctx, cfg, log, func(addr net.Addr) { s.addr <- addr })
	}()
	t.Cleanup(func() {
		require.NoError(t, s.stop(t))
		s.http.CloseIdleConnections()
	})
	return s
}

func (s *server) ready(t *testing.T) {
	t.Helper()
	select {
	case addr := <-s.addr:
		s.base = "http://" + addr.String()
	case <-s.done:
		require.NoError(t, s.err, "the server did not start")
		require.FailNow(t, "the server ended before it was ready")
	case <-time.After(patience):
		require.FailNow(t, "the server was not ready in time")
	}
}

// stop ends the server as SIGTERM does and returns what app.Run returned.
// Stopping twice is fine.
func (s *server) stop(t *testing.T) error {
	t.Helper()
	s.cancel()
	select {
	case <-s.done:
		return s.err
	case <-time.After(patience):
		return fmt.Errorf("the server did not stop within %s", patience)
	}
}

// call is one request, to be sent by any goroutine.
type call struct {
	method string
	// target is path and query as they stand in the request line.
	target string
	body   string
}

// reply is what came back.
type reply struct {
	status int
	header http.Header
	raw    []byte
	took   time.Duration
}

// send makes one request; the end of ctx breaks it off like a client that
// leaves.
func (s *server) send(ctx context.Context, c call) (reply, error) {
	started := time.Now()
	var body io.Reader
	if c.body != "" {
		body = strings.NewReader(c.body)
	}
	request, err := http.NewRequestWithContext(ctx, c.method, s.base+c.target, body)
	if err != nil {
		return reply{}, fmt.Errorf("building %s %s: %w", c.method, c.target, err)
	}
	response, err := s.http.Do(request)
	if err != nil {
		return reply{}, err
	}
	raw := &bytes.Buffer{}
	_, err = raw.ReadFrom(response.Body)
	if closing := response.Body.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return reply{}, fmt.Errorf("reading the answer to %s %s: %w", c.method, c.target, err)
	}
	return reply{response.StatusCode, response.Header, raw.Bytes(), time.Since(started)}, nil
}

// scan reads one row of the server's database, for what no endpoint shows.
func (s *server) scan(t *testing.T, query string, args []any, into ...any) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.dsn)
	require.NoError(t, err)
	err = conn.QueryRow(t.Context(), query, args...).Scan(into...)
	require.NoError(t, conn.Close(t.Context()))
	require.NoError(t, err)
}

// until looks again and again until what it waits for has happened.
func until(t *testing.T, what string, happened func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for !happened() {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			require.FailNow(t, "did not happen in time: "+what)
		}
	}
}
