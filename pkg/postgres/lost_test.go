package postgres_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/pgtest"
)

// told waits for the signal.
func told(t *testing.T, pool *postgres.Pool) {
	t.Helper()
	select {
	case <-pool.Losses():
	case <-soon(t).Done():
		require.Fail(t, "Lost does not receive")
	}
}

func silent(t *testing.T, pool *postgres.Pool) {
	t.Helper()
	select {
	case <-pool.Losses():
		require.Fail(t, "Lost received")
	default:
	}
}

func TestTerminatedConnectionIsReported(t *testing.T) {
	t.Parallel()
	dsn := pgtest.EmptyDatabase(t)
	pool, other := open(t, config(dsn)), open(t, config(dsn))
	conn, err := pool.Acquire(soon(t))
	require.NoError(t, err)
	var done bool
	// The second argument waits until the session is gone.
	require.NoError(t, other.QueryRow(soon(t), "SELECT pg_terminate_backend($1, 60000)", conn.Conn().PgConn().PID()).Scan(&done))
	require.True(t, done)
	_, err = conn.Exec(soon(t), "SELECT 1")
	require.True(t, postgres.ConnectionLost(err), "%v", err)
	require.Equal(t, queue.CodeUnavailable, queue.CodeOf(postgres.Wrap(err)))
	conn.Release()
	told(t, pool)
	silent(t, pool)
	silent(t, other)
	require.NoError(t, pool.Ping(soon(t)), "the next one gets another connection")
}

func TestSessionEndedInMidStatementIsReported(t *testing.T) {
	t.Parallel()
	dsn := pgtest.EmptyDatabase(t)
	pool := open(t, config(dsn))
	_, err := pool.Exec(soon(t), "SELECT pg_terminate_backend(pg_backend_pid())")
	require.Equal(t, "57P01", postgres.SQLState(err), "%v", err)
	require.True(t, postgres.ConnectionLost(err))
	told(t, pool)
	require.True(t, pool.TakeBroken())
	require.False(t, pool.TakeBroken(), "since then none has")
}

// A second pool for the same work tells the first one, which is the one that is
// listened to.
func TestAPoolReportsToAnother(t *testing.T) {
	t.Parallel()
	dsn := pgtest.EmptyDatabase(t)
	pool, second := open(t, config(dsn)), open(t, config(dsn))
	second.ForwardLossesTo(pool)
	_, err := second.Exec(soon(t), "SELECT pg_terminate_backend(pg_backend_pid())")
	require.True(t, postgres.ConnectionLost(err))
	told(t, pool)
	require.True(t, pool.TakeBroken())
	silent(t, second)
	require.False(t, second.TakeBroken())
}

func TestConnectionsThePoolClosesAreNotLost(t *testing.T) {
	t.Parallel()
	pool := open(t, config(pgtest.EmptyDatabase(t)))
	for range 3 {
		require.NoError(t, pool.Ping(soon(t)))
		pool.Reset()
	}
	_, err := pool.Exec(soon(t), "SELECT 1/0")
	require.Equal(t, "22012", postgres.SQLState(err))
	require.NoError(t, pool.Ping(soon(t)))
	pool.Close()
	silent(t, pool)
	require.False(t, pool.TakeBroken())
}

func TestOneSignalStandsForMany(t *testing.T) {
	t.Parallel()
	pool := open(t, config("postgres://u@"+nobody(t)+"/d"))
	silent(t, pool)
	for range 100 {
		pool.SignalLoss() // never blocks, though nobody listens
	}
	told(t, pool)
	silent(t, pool)
	pool.SignalLoss()
	told(t, pool)
	require.False(t, pool.TakeBroken(), "that is another reason")
}
