package devdb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
)

// ownerVariable makes the test program run the cluster in the named folder until it is
// killed: some tests kill the owner of a cluster.
const ownerVariable = "DEVDB_TEST_OWNER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(ownerVariable); dir != "" {
		os.Exit(ownUntilKilled(dir))
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := os.RemoveAll(templateParent); err != nil {
			fmt.Println(err)
			code = 1
		}
		os.Exit(code)
	}))
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

// templateParent is the folder of the template, once there is one.
var templateParent string

// template makes a cluster that was never started, which the tests copy: initdb takes longer than most tests.
var template = sync.OnceValues(func() (dir string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	if templateParent, err = os.MkdirTemp("", "belfry-devdb-"); err != nil {
		return "", err
	}
	if err := os.Chmod(templateParent, 0o755); err != nil {
		return "", err
	}
	dir, l, err := openFolder(filepath.Join(templateParent, "cluster"))
	if err != nil {
		return "", err
	}
	c := &Cluster{cfg: testConfig(dir), dir: dir}
	if c.account, err = accountFor(c.data()); err == nil {
		c.binDir, err = FindBinaries(ctx, zap.NewNop())
	}
	if err == nil {
		err = c.prepare(ctx, false)
	}
	return dir, errors.Join(err, l.release())
})

// madeDir is a clusterDir in which initdb has run.
func madeDir(t *testing.T) string {
	t.Helper()
	from, err := template()
	require.NoError(t, err)
	dir := clusterDir(t)
	out, err := exec.CommandContext(testContext(t), "cp", "-a", from, dir).CombinedOutput()
	require.NoError(t, err, string(out))
	return dir
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
