package devdb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
)

// ownerVariable names a folder. A test program with this variable runs the cluster in the folder until the program is killed.
// Some tests need this, because they kill the owner of a cluster.
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

// testConfig turns fsync off for speed. A killed Postgres loses no data without fsync.
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

// templateParent is the folder of the template. It is empty until the template exists.
var templateParent string

// template makes a cluster that was never started. The tests copy it, because initdb takes longer than most tests.
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

// madeDir returns a folder like clusterDir in which initdb has run.
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

// query runs statements in the database postgres and returns the single value of the last statement.
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

// install creates small programs in a new folder below root.
func install(t *testing.T, root, name string, files ...string) string {
	t.Helper()
	dir := filepath.Join(root, name)
	require.NoError(t, os.MkdirAll(dir, 0o755))
	for _, file := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte("#!/bin/sh\nexit 1\n"), 0o755))
	}
	return dir
}

func TestBinariesAreFoundInOrder(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	variable := install(t, root, "variable", programs...)
	onPath := install(t, root, "on-path", programs...)
	client := install(t, root, "client-only", "pg_ctl", "psql")
	fromConfig := install(t, root, "from-config", programs...)
	config := install(t, root, "config")
	script := "#!/bin/sh\n[ \"$1\" = --bindir ] && echo " + fromConfig + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(config, "pg_config"), []byte(script), 0o755))
	brokenConfig := install(t, root, "broken-config", "pg_config")
	for _, version := range []string{"9.6", "10", "16", "9.5"} {
		install(t, root, "lib/"+version+"/bin", programs...)
	}
	install(t, root, "lib/17/bin", "initdb") // incomplete
	newest := filepath.Join(root, "lib/16/bin")
	usual := []string{filepath.Join(root, "none-*"), filepath.Join(root, "lib/*/bin")}

	for name, test := range map[string]struct {
		variable, path string
		patterns       []string
		want           string
	}{
		"variable":            {variable, onPath, usual, variable},
		"path":                {"", client + ":" + config + ":" + onPath, usual, onPath},
		"pg_config":           {"", client + ":" + config, usual, fromConfig},
		"install folder":      {"", client, usual, newest},
		"broken pg_config":    {"", brokenConfig, usual, newest},
		"relative path entry": {"", ".:bin", usual, newest},
		"fetched":             {"", client, nil, "/fetched"},
	} {
		f := finder{
			env: func(key string) string {
				return map[string]string{"PATH": test.path, binDirVariable: test.variable}[key]
			},
			patterns: test.patterns,
			fetch:    func(context.Context) (string, error) { return "/fetched", nil },
		}
		got, err := f.find(t.Context())
		require.NoError(t, err, name)
		require.Equal(t, test.want, got, name)
	}
}

func TestAChosenFolderWithoutProgramsIsAnError(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	partial := install(t, root, "partial", "postgres")
	require.NoError(t, os.WriteFile(filepath.Join(partial, "initdb"), nil, 0o644)) // not executable
	f := finder{
		env:      func(key string) string { return map[string]string{binDirVariable: partial}[key] },
		patterns: []string{install(t, root, "good", programs...)},
	}
	_, err := f.find(t.Context())
	require.ErrorContains(t, err, "BELFRY_PG_BIN is "+partial+", which lacks initdb, pg_ctl")
	partial = filepath.Join(root, "nowhere")
	_, err = f.find(t.Context())
	require.ErrorContains(t, err, "nowhere, which lacks postgres, initdb, pg_ctl")
}

func TestTheErrorWithoutPostgresHasAdvice(t *testing.T) {
	t.Parallel()
	cause := errors.New("no such host")
	f := finder{env: func(string) string { return "" }, fetch: func(context.Context) (string, error) { return "", cause }}
	_, err := f.find(t.Context())
	require.ErrorIs(t, err, cause)
	for _, word := range []string{"install Postgres", "BELFRY_PG_BIN", "belfry serve", "database.url"} {
		require.ErrorContains(t, err, word)
	}
}

func TestThisMachineHasPostgres(t *testing.T) {
	t.Parallel()
	dir, err := FindBinaries(t.Context(), zap.NewNop())
	require.NoError(t, err)
	require.Empty(t, missingPrograms(dir))
}

func TestRootGetsAnotherAccount(t *testing.T) {
	t.Parallel()
	dir := clusterDir(t)
	as, err := accountFor(filepath.Join(dir, "missing"))
	require.NoError(t, err)
	if os.Geteuid() != 0 {
		require.Equal(t, account{}, as)
		require.Nil(t, as.processAttributes().Credential)
		return
	}
	require.True(t, as.switched)
	require.NotZero(t, as.uid)

	// The owner of existing data stays the same, also an owner without a user name.
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, account{uid: 4711, gid: 4712, switched: true}.mkdir(filepath.Join(dir, "data")))
	as, err = accountFor(filepath.Join(dir, "data"))
	require.NoError(t, err)
	require.Equal(t, account{name: "4711", uid: 4711, gid: 4712, switched: true}, as)
}

func TestClosedFolderIsNamed(t *testing.T) {
	t.Parallel()
	home := filepath.Join(clusterDir(t), "home")
	inner := filepath.Join(home, "dev", "cluster")
	require.NoError(t, os.MkdirAll(inner, 0o755))
	stranger := account{name: "stranger", uid: fallbackID, gid: fallbackID, switched: true}
	require.Empty(t, stranger.closedParent(inner))

	require.NoError(t, os.Chmod(filepath.Dir(inner), 0o700))
	require.NoError(t, os.Chmod(home, 0o700))
	require.Equal(t, home, stranger.closedParent(inner), "the topmost closed folder")
	denied := fmt.Errorf("running: %w", fs.ErrPermission)
	err := stranger.explain(denied, inner, "/")
	require.ErrorIs(t, err, fs.ErrPermission)
	require.ErrorContains(t, err, home+" is closed to it")
	require.ErrorContains(t, err, "chmod o+x "+home)
	require.ErrorContains(t, stranger.explain(denied, "/", inner), binDirVariable)
	require.Equal(t, denied, account{}.explain(denied, inner, "/"), "without another account the error is unchanged")

	cfg := testConfig(inner)
	if os.Geteuid() == 0 {
		_, err = Start(testContext(t), cfg)
		require.ErrorContains(t, err, home+" is closed to it")
		return
	}
	start(t, cfg)
}

func TestDefaultDirIsReachable(t *testing.T) {
	home := filepath.Join(clusterDir(t), "home")
	require.NoError(t, os.MkdirAll(home, 0o755))
	t.Setenv("HOME", home)
	t.Setenv("XDG_DATA_HOME", "")
	dir, err := DefaultDir()
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(dir, home), dir)
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chmod(home, 0o700))
		dir, err = DefaultDir()
		require.NoError(t, err)
		require.Equal(t, "/var/lib/belfry/dev", dir, "the account of Postgres may not enter the home folder of root")
		return
	}
	t.Setenv("XDG_DATA_HOME", "/somewhere")
	dir, err = DefaultDir()
	require.NoError(t, err)
	require.True(t, dir == "/somewhere/belfry/dev" || strings.Contains(dir, "/Library/"), dir)
}
