package postgres_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/postgres/devdb"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/pgtest"
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

// A database is in these states while it is restored or renamed.
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
