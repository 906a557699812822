package postgres_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/postgres/devdb"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/pgproxy"
	"github.com/belfry-mq/belfry/test/pgtest"
	"github.com/belfry-mq/belfry/test/stopwatch"
)

// The parts run one after the other on one server, because starting a server is slow.
func TestDatabaseThatStopsAndStarts(t *testing.T) {
	t.Parallel()
	cluster := pgtest.OwnCluster(t)
	lockClerk(t, cluster)
	require.NoError(t, cluster.Stop(soon(t)))
	t.Run("is waited for when it starts later", func(t *testing.T) { startsLater(t, cluster) })
	t.Run("refuses a wrong password at once", func(t *testing.T) { wrongPassword(t, cluster) })
	t.Run("says that it accepts no connections", func(t *testing.T) { closedToAll(t, cluster) })
	t.Run("is reported when it is killed, and found again", func(t *testing.T) { killed(t, cluster) })
}

// lockClerk creates a role that needs a password. The rule takes effect at the next
// start.
func lockClerk(t *testing.T, cluster *devdb.Cluster) {
	t.Helper()
	admin, err := pgx.Connect(soon(t), cluster.URL("postgres"))
	require.NoError(t, err)
	defer func() { require.NoError(t, admin.Close(soon(t))) }()
	_, err = admin.Exec(soon(t), "CREATE ROLE clerk LOGIN PASSWORD 'right'")
	require.NoError(t, err)
	var rules string
	require.NoError(t, admin.QueryRow(soon(t), "SHOW hba_file").Scan(&rules))
	old, err := os.ReadFile(rules)
	require.NoError(t, err)
	// Written in place, so that the server keeps the owner of the file.
	require.NoError(t, os.WriteFile(rules, append([]byte("host all clerk 127.0.0.1/32 scram-sha-256\n"), old...), 0o600))
}

func startsLater(t *testing.T, cluster *devdb.Cluster) {
	pool := open(t, config(withPassword(t, cluster.URL("postgres"), "s3cret")))
	log, logs, waiting := watched()
	restarted := make(chan error, 1)
	ctx, cancel := context.WithCancel(soon(t))
	defer cancel()
	go func() {
		select {
		case <-waiting:
		case <-ctx.Done():
		}
		restarted <- cluster.Restart(ctx)
	}()
	require.NoError(t, pool.Wait(ctx, patience, log))
	require.NoError(t, <-restarted)
	require.NoError(t, pool.Ping(ctx))
	entry := logs.All()[0]
	require.Equal(t, "waiting for the database", entry.Message)
	require.Equal(t, fmt.Sprintf("127.0.0.1:%d", cluster.Port()), entry.ContextMap()["address"])
	require.Equal(t, patience, entry.ContextMap()["giving_up_after"])
	requireDiscreet(t, logs)

	log, logs, _ = watched()
	require.NoError(t, pool.Wait(ctx, patience, log), "the database runs already")
	require.Zero(t, logs.Len())
}

func wrongPassword(t *testing.T, cluster *devdb.Cluster) {
	clerk := func(password string) string {
		return withPassword(t, strings.Replace(cluster.URL("postgres"), "//postgres@", "//clerk@", 1), password)
	}
	log, logs, _ := watched()
	require.NoError(t, open(t, config(clerk("right"))).Wait(soon(t), patience, log))
	err := open(t, config(clerk("s3cret"))).Wait(soon(t), patience, log)
	require.Equal(t, "28P01", postgres.SQLState(err), "%v", err)
	require.ErrorContains(t, err, "in database.url")
	require.NotContains(t, err.Error(), "s3cret")
	require.Zero(t, logs.Len())
}

// A database refuses connections in these ways while an operator restores or renames it.
func closedToAll(t *testing.T, cluster *devdb.Cluster) {
	require.NoError(t, cluster.CreateDatabase(soon(t), "closed"))
	admin, err := pgx.Connect(soon(t), cluster.URL("postgres"))
	require.NoError(t, err)
	defer func() { require.NoError(t, admin.Close(soon(t))) }()
	refused := func(dsn, statement, want string) {
		t.Helper()
		_, err := admin.Exec(soon(t), statement)
		require.NoError(t, err)
		err = postgres.Wrap(open(t, config(dsn)).Ping(soon(t)))
		require.Equal(t, queue.CodeUnavailable, queue.CodeOf(err))
		require.ErrorContains(t, err, want)
	}
	dsn := cluster.URL("closed")
	clerk := withPassword(t, strings.Replace(dsn, "//postgres@", "//clerk@", 1), "right")
	refused(clerk, "REVOKE CONNECT ON DATABASE closed FROM PUBLIC", "refuses the login")
	refused(dsn, "ALTER DATABASE closed ALLOW_CONNECTIONS false", "accepts no connections")
}

func killed(t *testing.T, cluster *devdb.Cluster) {
	pool := open(t, config(cluster.URL("postgres")))
	conn, err := pool.Acquire(soon(t))
	require.NoError(t, err)
	require.NoError(t, cluster.Kill())
	_, err = conn.Exec(soon(t), "SELECT 1")
	require.True(t, postgres.ConnectionLost(err), "%v", err)
	conn.Release()
	requireLoss(t, pool)
	require.Equal(t, queue.CodeUnavailable, queue.CodeOf(postgres.Wrap(pool.Ping(soon(t)))))
	require.NoError(t, cluster.Restart(soon(t)))
	require.NoError(t, pool.Ping(soon(t)))
}

// All connections fall silent at the same time. The first request that notices this uses up its whole time. The next requests get
// new connections.
func TestSilentConnectionsAreRetiredTogether(t *testing.T) {
	const size = 6
	network, through := pgproxy.New(t, database(t))
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
	_ = ask()            // this request may get its connection before the first request fails
	for range size - 2 { // on a silent connection, these requests would wait until their timeout
		_, err := pool.Exec(soon(t), "SELECT 1")
		require.NoError(t, err)
	}
}

// A connection that falls silent during a statement leaves the pool soon, and not only
// after the 15 s that pgx needs to close it.
func TestSilentConnectionsInUseLeaveThePool(t *testing.T) {
	const size, soonEnough = 3, 5 * time.Second
	network, through := pgproxy.New(t, database(t))
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

// All connections fall silent while nobody uses them. The next request notices this by one ping, and still gets its answer in
// time.
func TestIdleConnectionsThatFellSilentFailNoRequest(t *testing.T) {
	const size = 6
	network, through := pgproxy.New(t, database(t))
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
	idle := time.NewTimer(1100 * time.Millisecond) // a connection that was idle for less than a second is not pinged
	<-idle.C
	network.FreezeOld()
	var one int
	require.NoError(t, pool.ScanRow(t.Context(), []any{&one}, "SELECT 1"))
	requireLoss(t, pool)
}

// After the loss of another connection, no statement fails on an older connection. The older connection may have been used just
// before the loss, or held during the loss.
func TestConnectionsOlderThanALossAreTestedBeforeUse(t *testing.T) {
	const size = 3
	network, through := pgproxy.New(t, database(t))
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
