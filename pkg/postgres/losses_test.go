package postgres_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/pgtest"
)

// requireLoss waits for the signal.
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
	t.Parallel()
	dsn := pgtest.DatabaseWithoutSchema(t)
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
	t.Parallel()
	dsn := pgtest.DatabaseWithoutSchema(t)
	pool := open(t, config(dsn))
	_, err := pool.Exec(soon(t), "SELECT pg_terminate_backend(pg_backend_pid())")
	require.Equal(t, "57P01", postgres.SQLState(err), "%v", err)
	require.True(t, postgres.ConnectionLost(err))
	requireLoss(t, pool)
	require.True(t, pool.TakeBroken())
	require.False(t, pool.TakeBroken(), "none broke since the previous call")
}

// A loss of either of two related pools is reported once.
func TestRelatedPoolsShareTheirLosses(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DatabaseWithoutSchema(t)
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
	t.Parallel()
	pool := open(t, config(pgtest.DatabaseWithoutSchema(t)))
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
