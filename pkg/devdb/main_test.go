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

// ownerVariable makes the test program run the cluster in the named folder until
// it is killed: the tests need an owner that can die.
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

// testConfig trades durability against power cuts for speed; a killed Postgres
// loses nothing by it.
func testConfig(dir string) Config {
	return Config{Dir: dir, Settings: map[string]string{"fsync": "off", "max_connections": "20", "shared_buffers": "16MB"}}
}

// clusterDir is a folder that the account of the cluster can reach; t.TempDir is
// closed to it when root runs the tests.
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

// start runs a cluster that is stopped with the test.
func start(t *testing.T, cfg Config) *Cluster {
	t.Helper()
	ctx := testContext(t)
	c, err := Start(ctx, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Stop(ctx)) })
	return c
}

// query runs statements in the database postgres and returns the last one's
// single value.
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
