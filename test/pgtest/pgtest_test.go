package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/postgres/devdb"
)

func TestMain(m *testing.M) { Main(m) }

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) }) // some tests end the connection
	return conn
}

func value(t *testing.T, conn *pgx.Conn, sql string, args ...any) (text string) {
	t.Helper()
	require.NoError(t, conn.QueryRow(t.Context(), sql, args...).Scan(&text), sql)
	return text
}

func TestDatabaseIsDroppedWithItsTest(t *testing.T) {
	t.Parallel()
	var name string
	t.Run("inner", func(t *testing.T) {
		dsn, err := url.Parse(Database(t))
		require.NoError(t, err)
		name = dsn.Path[1:]
		// Left open on purpose: a connection must not block the end of a test.
		_, err = pgx.Connect(context.Background(), dsn.String())
		require.NoError(t, err)
	})
	require.NotEmpty(t, name)
	watch := connect(t, DatabaseWithoutSchema(t))
	require.Equal(t, "0", value(t, watch, "SELECT count(*)::text FROM pg_database WHERE datname = $1", name))
}

func TestSettingsAreDurableAgainstAKill(t *testing.T) {
	t.Parallel()
	conn := connect(t, OwnCluster(t).URL("postgres")) // a server from BELFRY_TEST_DATABASE_URL has other settings
	for name, want := range settings() {
		require.Equal(t, want, value(t, conn, "SELECT current_setting($1)", name), name)
	}
}

func TestMissingPostgresFailsEveryTest(t *testing.T) {
	t.Parallel()
	s := server{allowed: true, failed: errors.New("no Postgres")}
	for range 2 {
		_, _, err := s.create(t.Context(), (*server).migratedLocked)
		require.ErrorIs(t, err, s.failed)
	}
	require.NoError(t, s.close())
}

func TestServerFromTheEnvironmentIsUsedAndLeftClean(t *testing.T) {
	cluster := OwnCluster(t)
	t.Setenv(serverVariable, cluster.URL("postgres"))
	ctx, cancel := context.WithTimeout(t.Context(), setupTimeout)
	defer cancel()
	s := server{allowed: true}
	dsn, name, err := s.create(ctx, (*server).migratedLocked)
	require.NoError(t, err)
	require.Equal(t, cluster.URL(name), dsn)
	require.NoError(t, s.drop(ctx, name))
	require.NoError(t, s.close())
	conn := connect(t, cluster.URL("postgres"))
	require.Equal(t, "0", value(t, conn, "SELECT count(*)::text FROM pg_database WHERE datname LIKE 'belfry%'"))

	t.Setenv(serverVariable, "host=localhost")
	s = server{allowed: true}
	_, _, err = s.create(ctx, (*server).migratedLocked)
	require.ErrorContains(t, err, serverVariable+": it must be a URL")
}

func TestSweepRemovesFoldersOfDeadTests(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), setupTimeout)
	defer cancel()
	dead := exec.Command("true")
	require.NoError(t, dead.Run())
	tmp, err := os.MkdirTemp("", "belfry-sweep-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(tmp, 0o755))
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(tmp)) })
	leave := func(pid int) string {
		dir := filepath.Join(tmp, fmt.Sprintf("%s%d-1", dirPrefix, pid), clusterName)
		require.NoError(t, os.Mkdir(filepath.Dir(dir), 0o755))
		require.NoError(t, unused.copy(ctx, dir))
		cluster, err := devdb.Start(ctx, devdb.Config{Dir: dir, Settings: settings()})
		require.NoError(t, err)
		require.NoError(t, cluster.Stop(ctx))
		return dir
	}
	left, mine := leave(dead.ProcessState.Pid()), leave(os.Getpid())
	require.NoError(t, sweep(ctx, tmp))
	require.NoDirExists(t, filepath.Dir(left))
	require.DirExists(t, mine, "the folder of a running test must stay, because the test may restart its server")
	require.False(t, ownerLives(dirPrefix+strconv.Itoa(dead.ProcessState.Pid())+"-1"))
	require.True(t, ownerLives(dirPrefix+"name"))
}
