package devdb

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

func TestDataIsKeptUntilFresh(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	cfg := testConfig(madeDir(t))
	c := start(t, cfg)
	require.Equal(t, "kept", query(t, c, makeNote, readNote))
	require.NoError(t, c.Stop(ctx))
	<-c.Done()
	require.NoError(t, c.Stop(ctx), "a second Stop does nothing")

	again := start(t, cfg)
	require.Equal(t, "kept", query(t, again, readNote))
	require.NoError(t, again.Stop(ctx))

	// A crash in the middle of initdb leaves such a folder.
	leftover := filepath.Join(cfg.Dir, initPrefix+"1")
	require.NoError(t, os.MkdirAll(filepath.Join(leftover, "base"), 0o700))
	cfg.Fresh = true
	fresh := start(t, cfg)
	require.Equal(t, "false", query(t, fresh, hasNote))
	require.NoDirExists(t, leftover)
}

func TestClusterIsPrivateAndHasFixedSettings(t *testing.T) {
	t.Parallel()
	cfg := testConfig(clusterDir(t))
	cfg.Settings["Work_Mem"] = "5MB"
	c := start(t, cfg)
	for setting, want := range map[string]string{
		"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "port": strconv.Itoa(c.Port()),
		"server_encoding": "UTF8", "lc_messages": "C", "TimeZone": "UTC", "log_timezone": "UTC",
		"work_mem": "5MB", "fsync": "off", "data_directory": filepath.Join(c.Dir(), "data"),
	} {
		require.Equal(t, want, query(t, c, "SHOW "+setting), setting)
	}
	require.Equal(t, "C", query(t, c, "SELECT datcollate FROM pg_database WHERE datname = 'template1'"))
	info, err := os.Stat(filepath.Join(c.Dir(), "data"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
}

func TestCreateDatabaseTwiceAtOnce(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	c := start(t, testConfig(madeDir(t)))
	const name = `odd "name`
	errs := make([]error, 4)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = c.CreateDatabase(ctx, name) })
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	conn, err := pgx.Connect(ctx, c.URL(name))
	require.NoError(t, err, "the URL quotes the name")
	require.NoError(t, conn.Close(ctx))
}

func TestSecondStartNamesTheHolder(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	cfg := testConfig(madeDir(t))
	before := time.Now().Add(-time.Second)
	c := start(t, cfg)

	_, err := Start(ctx, cfg) // must not wait for the first cluster
	var inUse *InUseError
	require.ErrorAs(t, err, &inUse)
	require.Equal(t, os.Getpid(), inUse.PID)
	require.Equal(t, c.Port(), inUse.Port)
	require.WithinRange(t, inUse.Since, before, time.Now())
	require.ErrorContains(t, err, "process "+strconv.Itoa(os.Getpid()))
	require.ErrorContains(t, err, "port "+strconv.Itoa(c.Port()))
	require.ErrorAs(t, Remove(ctx, cfg.Dir), &inUse, "the folder of a live owner is not removed")
	require.Equal(t, "1", query(t, c, "SELECT '1'"), "the first cluster still runs")

	require.NoError(t, c.Kill())
	_, err = Start(ctx, cfg)
	require.ErrorAs(t, err, &inUse, "the folder is locked until Stop")
	require.NoError(t, c.Stop(ctx))
	start(t, cfg)
}

func TestTakenPortFailsAtOnce(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	cfg := testConfig(madeDir(t))
	var lc net.ListenConfig
	taken, err := lc.Listen(ctx, "tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	port := portOf(taken)
	cfg.Port = port
	_, err = Start(ctx, cfg)
	require.ErrorContains(t, err, "the port "+strconv.Itoa(port)+" for Postgres cannot be used: choose another one")

	require.NoError(t, taken.Close())
	c := start(t, cfg)
	require.Equal(t, port, c.Port())
	require.ErrorContains(t, c.Restart(ctx), "it is running")

	// Another program took the port while Postgres was down. Postgres itself reports this.
	require.NoError(t, c.Stop(ctx))
	taken, err = lc.Listen(ctx, "tcp4", c.address())
	require.NoError(t, err)
	err = c.Restart(ctx)
	require.ErrorContains(t, err, "Address already in use")
	require.ErrorContains(t, err, logName)
	log, readErr := os.ReadFile(filepath.Join(c.Dir(), logName))
	require.NoError(t, readErr)
	require.Equal(t, 1, strings.Count(string(log), "FATAL"), "the start is not tried again")
	require.NoError(t, taken.Close())
	require.NoError(t, c.Restart(ctx), "a failed restart may be repeated")
	require.Equal(t, "1", query(t, c, "SELECT '1'"))
}

func (c *Cluster) address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(c.port)) }

func TestAnotherServerOnThePortIsDetected(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	other := start(t, testConfig(madeDir(t)))
	c := &Cluster{dir: clusterDir(t), port: other.Port()}
	require.ErrorContains(t, c.probe(ctx), "works on "+other.Dir())
}

func TestABadSettingReturnsTheErrorOfPostgres(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	cfg := testConfig(madeDir(t))
	cfg.Settings["max_connections"] = "plenty"
	// After the time limit, Start would return another error.
	_, err := Start(ctx, cfg)
	require.ErrorContains(t, err, `invalid value for parameter "max_connections": "plenty"`)
	start(t, testConfig(cfg.Dir)) // the folder was released
}

func TestReservedSettingsAndBadPortsAreRefused(t *testing.T) {
	t.Parallel()
	_, err := Start(t.Context(), Config{Port: 65536, Settings: map[string]string{"Port": "1", "listen_addresses": "*"}})
	for _, word := range []string{"no folder", "65536", "the setting Port", "the setting listen_addresses"} {
		require.ErrorContains(t, err, word)
	}
}

func TestAFolderWithOtherContentIsRefused(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	dir := clusterDir(t)
	file := filepath.Join(dir, "data", "thesis.txt")
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte("years of work"), 0o600))
	cfg := testConfig(dir)
	cfg.Fresh = true
	_, err := Start(ctx, cfg)
	require.ErrorContains(t, err, "was not made by Belfry")
	require.Error(t, Remove(ctx, dir))
	require.FileExists(t, file)
	require.NoFileExists(t, filepath.Join(dir, lockName))
}

func TestOtherMajorVersionNamesFresh(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	cfg := testConfig(madeDir(t))
	c := start(t, cfg)
	require.NoError(t, c.Stop(ctx))
	require.NoError(t, os.WriteFile(filepath.Join(cfg.Dir, "data", "PG_VERSION"), []byte("9\n"), 0o600))
	_, err := Start(ctx, cfg)
	require.ErrorContains(t, err, "made by Postgres 9")
	require.ErrorContains(t, err, "--fresh")
	cfg.Fresh = true
	start(t, cfg)
}

func TestEndOfContextCancelsStart(t *testing.T) {
	t.Parallel()
	cfg := testConfig(clusterDir(t))
	for _, when := range []string{initPrefix + "*", "data/postmaster.pid"} {
		ctx, cancel := context.WithCancel(testContext(t))
		stopped := make(chan struct{})
		go func() { // cancels the start when the file appears
			defer close(stopped)
			defer cancel()
			for ctx.Err() == nil {
				if found, _ := filepath.Glob(filepath.Join(cfg.Dir, when)); len(found) > 0 || !pause(ctx, time.Millisecond) {
					return
				}
			}
		}()
		c, err := Start(ctx, cfg)
		if err == nil { // the start finished before the cancel
			require.NoError(t, c.Stop(testContext(t)))
		} else {
			require.ErrorIs(t, err, context.Canceled)
		}
		cancel()
		<-stopped
		found, err := filepath.Glob(filepath.Join(cfg.Dir, initPrefix+"*"))
		require.NoError(t, err)
		require.Empty(t, found)
		require.NoFileExists(t, filepath.Join(cfg.Dir, "data", "postmaster.pid"))
	}
	start(t, cfg)
}

func TestRemoveDeletesAFolderWithoutOwner(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	cfg := testConfig(madeDir(t))
	c := start(t, cfg)
	require.NoError(t, c.Stop(ctx))
	require.NoError(t, Remove(ctx, cfg.Dir))
	require.NoDirExists(t, cfg.Dir)
}
