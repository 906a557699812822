package postgres_test

import (
	"context"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config/setting"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// database opens a database without a schema for a test, and makes the test parallel.
func database(t *testing.T) (dsn string) {
	t.Helper()
	t.Parallel()
	return pgtest.DatabaseWithoutSchema(t)
}

// patience is how long a test waits. A test that waits this long has failed.
const patience = 60 * time.Second

func config(dsn string, edit ...func(*postgres.Config)) postgres.Config {
	cfg := postgres.DefaultConfig()
	cfg.URL, cfg.RequestTimeout = setting.Secret(dsn), patience
	for _, e := range edit {
		e(&cfg)
	}
	return cfg
}

func open(t *testing.T, cfg postgres.Config) *postgres.Pool {
	t.Helper()
	pool, err := postgres.Open(t.Context(), cfg, "belfry-test", 0)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

func openRelated(t *testing.T, first *postgres.Pool, cfg postgres.Config) *postgres.Pool {
	t.Helper()
	pool, err := first.OpenRelated(t.Context(), cfg, "belfry-test", 0)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// soon returns a context that ends after patience, also in the cleanup of the test.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	t.Cleanup(cancel)
	return ctx
}

// withPassword adds a password to a DSN.
func withPassword(t *testing.T, dsn, password string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	require.NoError(t, err)
	u.User = url.UserPassword(u.User.Username(), password)
	return u.String()
}

// unusedAddress returns an address without a server.
func unusedAddress(t *testing.T) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	return listener.Addr().String()
}

// refusing starts a server that refuses every session with a SQLSTATE. If state is empty, the server never answers. refusing
// returns the address and a channel that receives a value for each session.
func refusing(t *testing.T, state string) (address string, sessions <-chan struct{}) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	seen, stop, stopped := make(chan struct{}, 1000), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			seen <- struct{}{}
			if state == "" {
				<-stop
			} else {
				refuse(conn, state)
			}
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		close(stop)
		_ = listener.Close()
		<-stopped
	})
	return listener.Addr().String(), seen
}

func refuse(conn net.Conn, state string) {
	backend := pgproto3.NewBackend(conn, conn)
	if _, err := backend.ReceiveStartupMessage(); err != nil {
		return
	}
	backend.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: state, Message: "refused for the test"})
	_ = backend.Flush()
}

// requireLoss waits for a signal of Losses.
func requireLoss(t *testing.T, pool *postgres.Pool) {
	t.Helper()
	select {
	case <-pool.Losses():
	case <-soon(t).Done():
		require.Fail(t, "Losses does not receive")
	}
}

// requireNoLoss requires that no signal is pending.
func requireNoLoss(t *testing.T, pool *postgres.Pool) {
	t.Helper()
	select {
	case <-pool.Losses():
		require.Fail(t, "Losses received")
	default:
	}
}

func TestTerminatedConnectionIsReported(t *testing.T) {
	dsn := database(t)
	pool, other := open(t, config(dsn)), open(t, config(dsn))
	conn, err := pool.Acquire(soon(t))
	require.NoError(t, err)
	var done bool
	// The second argument waits until the session has ended.
	require.NoError(t, other.QueryRow(soon(t), "SELECT pg_terminate_backend($1, 60000)", conn.Conn().PgConn().PID()).Scan(&done))
	require.True(t, done)
	_, err = conn.Exec(soon(t), "SELECT 1")
	require.True(t, postgres.ConnectionLost(err), "%v", err)
	require.Equal(t, queue.CodeUnavailable, queue.CodeOf(postgres.Wrap(err)))
	conn.Release()
	requireLoss(t, pool)
	requireNoLoss(t, pool)
	requireNoLoss(t, other)
	require.NoError(t, pool.Ping(soon(t)), "the next statement gets another connection")
}

func TestSessionEndedInMidStatementIsReported(t *testing.T) {
	dsn := database(t)
	pool := open(t, config(dsn))
	_, err := pool.Exec(soon(t), "SELECT pg_terminate_backend(pg_backend_pid())")
	require.Equal(t, "57P01", postgres.SQLState(err), "%v", err)
	require.True(t, postgres.ConnectionLost(err))
	requireLoss(t, pool)
	require.True(t, pool.TakeBroken())
	require.False(t, pool.TakeBroken(), "no connection broke since the previous call")
}

// A loss in one of two related pools is reported once.
func TestRelatedPoolsShareTheirLosses(t *testing.T) {
	dsn := database(t)
	pool := open(t, config(dsn))
	second := openRelated(t, pool, config(dsn))
	_, err := second.Exec(soon(t), "SELECT pg_terminate_backend(pg_backend_pid())")
	require.True(t, postgres.ConnectionLost(err))
	requireLoss(t, pool)
	require.True(t, pool.TakeBroken())
	requireNoLoss(t, second)
	require.False(t, second.TakeBroken())
}

func TestConnectionsClosedByThePoolAreNotLosses(t *testing.T) {
	pool := open(t, config(database(t)))
	for range 3 {
		require.NoError(t, pool.Ping(soon(t)))
		pool.Reset()
	}
	_, err := pool.Exec(soon(t), "SELECT 1/0")
	require.Equal(t, "22012", postgres.SQLState(err))
	require.NoError(t, pool.Ping(soon(t)))
	pool.Close()
	requireNoLoss(t, pool)
	require.False(t, pool.TakeBroken())
}

func TestLossesCoalesce(t *testing.T) {
	t.Parallel()
	pool := open(t, config("postgres://u@"+unusedAddress(t)+"/d"))
	requireNoLoss(t, pool)
	for range 100 {
		pool.SignalLoss() // does not block without a receiver
	}
	requireLoss(t, pool)
	requireNoLoss(t, pool)
	pool.SignalLoss()
	requireLoss(t, pool)
	require.False(t, pool.TakeBroken(), "no connection broke")
}
