package integration_test

import (
	"context"
	"fmt"
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
	"github.com/belfry-mq/belfry/config/setting"
	"github.com/belfry-mq/belfry/pkg/app"
	"github.com/belfry-mq/belfry/test/contract"
	"github.com/belfry-mq/belfry/test/httpcall"
	"github.com/belfry-mq/belfry/test/pgtest"
	"github.com/belfry-mq/belfry/test/stopwatch"
)

const (
	// patience is the time limit of conditions without a limit of their own. On a busy machine the limit grows
	// (test/stopwatch).
	patience = 30 * time.Second
	// lookInterval is the polling interval of until.
	lookInterval = 10 * time.Millisecond
)

// server is one running instance. Its methods are safe for concurrent use.
type server struct {
	dsn  string
	base string
	http *http.Client

	cancel context.CancelFunc
	addr   chan net.Addr
	// done closes when app.Run has returned. Then err is its result.
	done chan struct{}
	err  error
}

// document is the OpenAPI document. It is compiled once.
var document = sync.OnceValues(contract.Load)

// documented returns an HTTP client that fails t if a request or an answer does not follow the OpenAPI document.
func documented(t *testing.T, base http.RoundTripper) *http.Client {
	t.Helper()
	loaded, err := document()
	require.NoError(t, err)
	return &http.Client{Transport: &contract.Transport{
		Base: base, Document: loaded, Complain: func(complaint string) { t.Error(complaint) },
	}}
}

// start starts a server on a new database. The server stops at the end of t.
func start(t *testing.T, options ...func(*config.Config)) *server {
	t.Helper()
	return startOn(t, pgtest.Database(t), options...)
}

// startOn starts a server on an existing database.
func startOn(t *testing.T, dsn string, options ...func(*config.Config)) *server {
	t.Helper()
	s := launch(t, dsn, options...)
	s.ready(t)
	return s
}

// launch begins the start of a server. ready waits until the server has started.
func launch(t *testing.T, dsn string, options ...func(*config.Config)) *server {
	t.Helper()
	return launchWith(t, dsn, zaptest.NewLogger(t, zaptest.Level(zap.ErrorLevel)), options...)
}

// launchWith is like launch, with a log.
func launchWith(t *testing.T, dsn string, log *zap.Logger, options ...func(*config.Config)) *server {
	t.Helper()
	cfg := config.Default()
	cfg.Database.URL = setting.Secret(dsn)
	cfg.Database.PoolSize = 8
	cfg.Database.RequestTimeout = patience
	cfg.HTTP.Addr, cfg.HTTP.DrainDelay = "127.0.0.1:0", 0
	cfg.Spool.Dir = t.TempDir()
	cfg.Defaults.RetryLimit, cfg.Defaults.RetryDelay = 3, 0 // TestAMinuteOfFailuresLosesNothing tests the defaults
	cfg.Encryption.Key = setting.Secret(strings.Repeat("5", 64))
	for _, option := range options {
		option(&cfg)
	}
	require.NoError(t, cfg.Validate())

	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	s := &server{
		dsn: dsn, cancel: cancel, addr: make(chan net.Addr, 1), done: make(chan struct{}),
		http: documented(t, &http.Transport{MaxIdleConnsPerHost: 100}),
	}
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
	until(t, "the server is ready", func() bool {
		select {
		case addr := <-s.addr:
			s.base = "http://" + addr.String()
			return true
		case <-s.done:
			require.NoError(t, s.err, "the server did not start")
			require.FailNow(t, "the server ended before it was ready")
		default:
		}
		return false
	})
}

// stop stops the server as SIGTERM does, and returns the result of app.Run. It may be called twice.
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

// call is a request. reply is a response.
type (
	call  = httpcall.Call
	reply = httpcall.Reply
)

// send sends a request to the server. It is safe for concurrent use.
func (s *server) send(ctx context.Context, c call) (reply, error) {
	return httpcall.Send(ctx, s.http, s.base, c)
}

// scan reads one row of the server's database. Tests use it for state that no endpoint returns.
func (s *server) scan(t *testing.T, query string, args []any, into ...any) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.dsn)
	require.NoError(t, err)
	err = conn.QueryRow(t.Context(), query, args...).Scan(into...)
	require.NoError(t, conn.Close(t.Context()))
	require.NoError(t, err)
}

// until calls happened repeatedly until it returns true. After patience it fails the test.
func until(t *testing.T, what string, happened func() bool) {
	t.Helper()
	watch := stopwatch.Start(t)
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for !happened() {
		watch.Within(t, patience, what)
		<-ticker.C
	}
}

// receive waits for a value, or for the end of the channel. After patience it fails the test, because a test that waits for ever
// ends all tests of the package.
func receive[T any](t *testing.T, from <-chan T, what string) T {
	t.Helper()
	return receiveWithin(t, from, patience, what)
}

// receiveWithin is like receive, with a limit.
func receiveWithin[T any](t *testing.T, from <-chan T, limit time.Duration, what string) (got T) {
	t.Helper()
	watch := stopwatch.Start(t)
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for {
		select {
		case got = <-from:
			return got
		case <-ticker.C:
			watch.Within(t, limit, what)
		}
	}
}
