package postgres_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/test/pgproxy"
	"github.com/belfry-mq/belfry/test/pgtest"
)

// All connections fall silent at the same time. The first request that notices uses up
// its whole time. The next requests do not.
func TestSilentConnectionsAreRetiredTogether(t *testing.T) {
	t.Parallel()
	const size = 6
	network, through := pgproxy.New(t, pgtest.DatabaseWithoutSchema(t))
	pool := open(t, config(through, func(c *postgres.Config) { c.RequestTimeout, c.PoolSize = time.Second, size }))
	conns := make([]*pgxpool.Conn, size)
	for i := range conns {
		var err error
		conns[i], err = pool.Acquire(soon(t))
		require.NoError(t, err)
	}
	for _, conn := range conns {
		conn.Release()
	}
	network.FreezeOld()
	failures := 0
	for range size {
		ctx, cancel := pool.Bounded(t.Context())
		if _, err := pool.Exec(ctx, "SELECT 1"); err != nil {
			failures++
		}
		cancel()
	}
	// The second request may get its connection before the first request fails.
	require.LessOrEqual(t, failures, 2)
}

// A connection that falls silent during a statement leaves the pool soon, and not only
// after the 15 s that pgx needs to close it.
func TestSilentConnectionsInUseLeaveThePool(t *testing.T) {
	t.Parallel()
	const size, soonEnough = 3, 5 * time.Second
	network, through := pgproxy.New(t, pgtest.DatabaseWithoutSchema(t))
	pool := open(t, config(through, func(c *postgres.Config) { c.RequestTimeout, c.PoolSize = 300*time.Millisecond, size }))
	conns := make([]*pgxpool.Conn, size)
	for i := range conns {
		var err error
		conns[i], err = pool.Acquire(soon(t))
		require.NoError(t, err)
	}
	network.FreezeOld()
	for _, conn := range conns {
		ctx, cancel := pool.Bounded(t.Context())
		_, err := conn.Exec(ctx, "SELECT 1")
		cancel()
		require.True(t, postgres.ConnectionLost(err), "%v", err)
		conn.Release()
	}
	began := time.Now()
	_, err := pool.Exec(soon(t), "SELECT 1")
	require.NoError(t, err)
	require.Less(t, time.Since(began), soonEnough)
}
