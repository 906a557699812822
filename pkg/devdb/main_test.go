package devdb

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// ownerVariable makes the test program run the cluster in the named folder until it is
// killed: some tests kill the owner of a cluster.
const ownerVariable = "DEVDB_TEST_OWNER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(ownerVariable); dir != "" {
		os.Exit(ownUntilKilled(dir))
	}
	goleak.VerifyTestMain(m)
}

func ownUntilKilled(dir string) int {
	c, err := Start(context.Background(), testConfig(dir))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(c.Port())
	<-c.Done()
	return 0
}

// testConfig turns fsync off for speed. A killed Postgres loses nothing by it.
func testConfig(dir string) Config {
	return Config{Dir: dir, Settings: map[string]string{"fsync": "off", "max_connections": "20", "shared_buffers": "16MB"}}
}

// clusterDir returns a folder that the account of the cluster can enter. When root runs the
// tests, that account cannot enter t.TempDir.
func clusterDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "belfry-devdb-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	dir, err = filepath.EvalSymlinks(dir)
	require.NoError(t, err)
	return filepath.Join(dir, "cluster")
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// start runs a cluster and stops it at the end of the test.
func start(t *testing.T, cfg Config) *Cluster {
	t.Helper()
	ctx := testContext(t)
	c, err := Start(ctx, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Stop(ctx)) })
	return c
}

// query runs statements in the database postgres and returns the single value of the last
// one.
func query(t *testing.T, c *Cluster, statements ...string) (value string) {
	t.Helper()
	ctx := testContext(t)
	conn, err := pgx.Connect(ctx, c.URL("postgres"))
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(ctx)) }()
	last := len(statements) - 1
	for _, s := range statements[:last] {
		_, err := conn.Exec(ctx, s)
		require.NoError(t, err, s)
	}
	require.NoError(t, conn.QueryRow(ctx, statements[last]).Scan(&value), statements[last])
	return value
}

const (
	makeNote = "CREATE TABLE note AS SELECT 'kept' AS text"
	readNote = "SELECT text FROM note"
	hasNote  = "SELECT (to_regclass('note') IS NOT NULL)::text"
)
