package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/test/pgproxy"
	"github.com/belfry-mq/belfry/test/pgtest"
	"github.com/belfry-mq/belfry/test/stopwatch"
)

// All connections fall silent at the same time. The first request that notices uses up
// its whole time. The next requests do not.
func TestSilentConnectionsAreRetiredTogether(t *testing.T) {
	t.Parallel()
	const size = 6
	network, through := pgproxy.New(t, pgtest.DatabaseWithoutSchema(t))
	pool := open(t, config(through, func(c *postgres.Config) { c.PoolSize = size }))
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
	ask := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := pool.Exec(ctx, "SELECT 1")
		return err
	}
	for !postgres.ConnectionLost(ask()) {
	}
	_ = ask()            // it may get its connection before the first request fails
	for range size - 2 { // on a silent connection, these would wait for all of their time
		_, err := pool.Exec(soon(t), "SELECT 1")
		require.NoError(t, err)
	}
}

// A connection that falls silent during a statement leaves the pool soon, and not only
// after the 15 s that pgx needs to close it.
func TestSilentConnectionsInUseLeaveThePool(t *testing.T) {
	t.Parallel()
	const size, soonEnough = 3, 5 * time.Second
	network, through := pgproxy.New(t, pgtest.DatabaseWithoutSchema(t))
	pool := open(t, config(through, func(c *postgres.Config) { c.PoolSize = size }))
	conns := make([]*pgxpool.Conn, size)
	for i := range conns {
		var err error
		conns[i], err = pool.Acquire(soon(t))
		require.NoError(t, err)
	}
	network.FreezeOld()
	for _, conn := range conns {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_, err := conn.Exec(ctx, "SELECT 1")
		cancel()
		require.True(t, postgres.ConnectionLost(err), "%v", err)
		conn.Release()
	}
	watch := stopwatch.Start(t)
	_, err := pool.Exec(soon(t), "SELECT 1")
	require.NoError(t, err)
	watch.Within(t, soonEnough, "the pool has room for another connection")
}

// All connections fall silent while nobody uses them. The first request after that notices it by one ping, and has an
// answer within its time.
func TestIdleConnectionsThatFellSilentFailNoRequest(t *testing.T) {
	t.Parallel()
	const size = 6
	network, through := pgproxy.New(t, pgtest.DatabaseWithoutSchema(t))
	pool := open(t, config(through, func(c *postgres.Config) { c.PoolSize, c.RequestTimeout = size, 6*time.Second }))
	conns := make([]*pgxpool.Conn, size)
	for i := range conns {
		var err error
		conns[i], err = pool.Acquire(soon(t))
		require.NoError(t, err)
	}
	for _, conn := range conns {
		conn.Release()
	}
	idle := time.NewTimer(1100 * time.Millisecond) // a younger one is not pinged
	<-idle.C
	network.FreezeOld()
	var number int
	require.NoError(t, pool.ScanRow(t.Context(), []any{&number}, "SELECT 1"))
	requireLoss(t, pool)
}

// Somebody else has noticed a loss. No statement fails on an older connection, whether it was used a moment ago or was
// held meanwhile.
func TestConnectionsOlderThanALossAreTestedBeforeUse(t *testing.T) {
	t.Parallel()
	const size = 3
	network, through := pgproxy.New(t, pgtest.DatabaseWithoutSchema(t))
	pool := open(t, config(through, func(c *postgres.Config) { c.PoolSize = size }))
	second := openRelated(t, pool, config(through))
	held, err := pool.Acquire(soon(t))
	require.NoError(t, err)
	defer held.Release()
	require.NoError(t, second.Ping(soon(t)))
	require.NoError(t, pool.Ping(soon(t)))
	network.Cut()
	pool.DoubtConnections()
	_, err = second.Exec(soon(t), "SELECT 1")
	require.NoError(t, err)
	held.Release()
	for range size {
		conn, err := pool.Acquire(soon(t))
		require.NoError(t, err)
		defer conn.Release()
		_, err = conn.Exec(soon(t), "SELECT 1")
		require.NoError(t, err)
	}
	links := network.Links.Load()
	pool.DoubtConnections()
	_, err = second.Exec(soon(t), "SELECT 1")
	require.NoError(t, err)
	require.Equal(t, links, network.Links.Load(), "a connection that answers is kept")
}
