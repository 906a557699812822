//go:build !release

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/pkg/postgres/devdb"
	"github.com/belfry-mq/belfry/pkg/postgres/migrate"
)

// devDir returns a folder that the account of Postgres can enter, even if root runs the tests.
func devDir(t *testing.T) string {
	t.Helper()
	parent, err := os.MkdirTemp("", "belfry-dev-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(parent, 0o755))
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(parent)) })
	return filepath.Join(parent, "dev")
}

// requireFree checks that Postgres has stopped and that the folder is not locked.
func requireFree(t *testing.T, dir string) {
	t.Helper()
	require.NoFileExists(t, filepath.Join(dir, "data", "postmaster.pid"))
	require.NoError(t, devdb.Remove(t.Context(), dir), "the folder is not locked")
}

// runDev runs `belfry dev`. It calls serve instead of the server.
func runDev(ctx context.Context, out io.Writer, cfg config.Config, dir string, serve serveFunc) error {
	d := &devServer{out: out, cfg: cfg, log: zap.NewNop(), opts: devOptions{dataDir: dir}, serve: serve}
	return d.run(ctx)
}

func devContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestDevRunsTheServerOnItsOwnPostgres(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(devContext(t))
	dir := devDir(t)
	cfg := config.Default()
	cfg.Database.URL, cfg.Database.ListenURL = "postgres://production/db", "postgres://production/db"
	cfg.Database.PoolSize = 120
	var out bytes.Buffer
	err := runDev(ctx, &out, cfg, dir, func(ctx context.Context, cfg config.Config, _ *zap.Logger, ready func(net.Addr)) error {
		require.Contains(t, cfg.Database.URL.Reveal(), "@127.0.0.1:")
		require.Contains(t, cfg.Database.URL.Reveal(), "/belfry?")
		require.Equal(t, cfg.Database.URL, cfg.Database.DirectURL())
		key, err := devKey(dir)
		require.NoError(t, err)
		require.Equal(t, key, cfg.Encryption.Key, "encryption works without a setting")
		require.Zero(t, cfg.HTTP.DrainDelay, "the server stops without a delay")
		require.Equal(t, "127.0.0.1:6632", cfg.HTTP.Addr, "other machines do not reach the server")
		require.Equal(t, "0.0.0.0:7", onLoopback("0.0.0.0:7"), "an address with a host is not changed")
		require.Equal(t, "150", one(t, cfg.Database.URL.Reveal(), "SHOW max_connections"))
		ready(&net.TCPAddr{IP: net.IPv6unspecified, Port: 7001})
		stop()
		<-ctx.Done()
		return nil
	})
	require.NoError(t, err, "a normal stop is not an error")
	require.Contains(t, out.String(), "\ncurl -s http://localhost:7001/api/v1/push ")
	require.Contains(t, out.String(), "its data is in "+dir)
	requireFree(t, dir)
}

func TestDevStopsPostgresWhenTheServerFails(t *testing.T) {
	t.Parallel()
	dir := devDir(t)
	failure := errors.New("the port is taken")
	err := runDev(devContext(t), &bytes.Buffer{}, config.Default(), dir, func(context.Context, config.Config, *zap.Logger, func(net.Addr)) error { return failure })
	require.ErrorIs(t, err, failure)
	requireFree(t, dir)
}

func TestDevOffersFreshForTheDataOfAnUnreleasedVersion(t *testing.T) {
	t.Parallel()
	dir := devDir(t)
	failure := fmt.Errorf("starting: %w", &migrate.UnreleasedError{Version: 38})
	err := runDev(devContext(t), &bytes.Buffer{}, config.Default(), dir, func(context.Context, config.Config, *zap.Logger, func(net.Addr)) error { return failure })
	require.ErrorIs(t, err, failure)
	require.ErrorContains(t, err, "belfry dev --fresh")
	requireFree(t, dir)
}

func TestDevEndsWhenPostgresDies(t *testing.T) {
	t.Parallel()
	dir := devDir(t)
	err := runDev(devContext(t), &bytes.Buffer{}, config.Default(), dir, func(ctx context.Context, _ config.Config, _ *zap.Logger, _ func(net.Addr)) error {
		require.NoError(t, syscall.Kill(postmaster(t, dir), syscall.SIGQUIT))
		<-ctx.Done()
		return errors.New("no connection") // a consequence of the end of Postgres
	})
	require.ErrorIs(t, err, errPostgresDied)
	require.ErrorContains(t, err, dir)
	require.NotContains(t, err.Error(), "no connection")
	require.NoError(t, devdb.Remove(t.Context(), dir))
}

func TestDevStoppedWhileStartingIsNoError(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := devDir(t)
	require.NoError(t, runDev(ctx, &bytes.Buffer{}, config.Default(), dir, func(context.Context, config.Config, *zap.Logger, func(net.Addr)) error {
		t.Error("the server must not be started")
		return nil
	}))
	requireFree(t, dir)
}

// one returns the single value of a statement.
func one(t *testing.T, dsn, sql string) (value string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	require.NoError(t, conn.QueryRow(t.Context(), sql).Scan(&value))
	require.NoError(t, conn.Close(t.Context()))
	return value
}

func postmaster(t *testing.T, dir string) int {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
	require.NoError(t, err)
	first, _, _ := strings.Cut(string(content), "\n")
	pid, err := strconv.Atoi(first)
	require.NoError(t, err)
	return pid
}

// output collects the output of a process. await waits for a part of it.
type output struct {
	mu    sync.Mutex
	text  strings.Builder
	grown chan struct{}
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.grown != nil {
		close(o.grown)
		o.grown = nil
	}
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func (o *output) await(ctx context.Context, t *testing.T, part string) string {
	t.Helper()
	o.awaitAfter(ctx, t, 0, part)
	return o.String()
}

// awaitAfter waits for a part of the output after its first bytes. It returns the number of the bytes up to the end of the
// part.
func (o *output) awaitAfter(ctx context.Context, t *testing.T, first int, part string) int {
	t.Helper()
	for {
		o.mu.Lock()
		text := o.text.String()[first:]
		if before, _, found := strings.Cut(text, part); found {
			o.mu.Unlock()
			return len(before) + len(part)
		}
		if o.grown == nil {
			o.grown = make(chan struct{})
		}
		grown := o.grown
		o.mu.Unlock()
		select {
		case <-grown:
		case <-ctx.Done():
			t.Fatalf("the output does not contain %q. The output so far:\n%s", part, text)
		}
	}
}

// devProcess runs `belfry dev` in a new process.
func devProcess(t *testing.T, args ...string) (cmd *exec.Cmd, stdout, stderr *output) {
	t.Helper()
	stdout, stderr = &output{}, &output{}
	return startBelfry(t, stdout, stderr, append([]string{"dev"}, args...)), stdout, stderr
}

var curlLine = regexp.MustCompile(`(?m)^curl .*$`)

func TestDevFromGreetingToExitCode(t *testing.T) {
	t.Parallel()
	ctx := devContext(t)
	dir := devDir(t)
	cmd, stdout, stderr := devProcess(t, "--data", dir, "--http-addr", "127.0.0.1:0")
	greeting := stdout.await(ctx, t, "Ctrl-C stops")
	lines := curlLine.FindAllString(greeting, -1)
	require.Len(t, lines, 3, greeting)
	var answers []string
	for _, line := range lines {
		answer, err := exec.CommandContext(ctx, "sh", "-c", line).CombinedOutput()
		require.NoError(t, err, "%s: %s", line, answer)
		answers = append(answers, string(answer))
	}
	require.NotContains(t, answers[0], "error")
	require.Contains(t, answers[1], `"hello":"world"`)
	require.Contains(t, answers[2], `"hello":"world"`, "the second group gets the message too")

	// A second process names the owner of the folder, fails, and does not disturb the first process.
	second, _, secondErr := devProcess(t, "--data", dir, "--http-addr", "127.0.0.1:0")
	require.Error(t, second.Wait())
	require.Equal(t, 1, second.ProcessState.ExitCode())
	require.Contains(t, secondErr.String(), "in use by process "+strconv.Itoa(cmd.Process.Pid))

	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.NoError(t, cmd.Wait(), stderr.String())
	require.Contains(t, stderr.String(), "stopping gracefully")
	requireFree(t, dir)
}

func TestDevAfterKillMinusNine(t *testing.T) {
	t.Parallel()
	ctx := devContext(t)
	dir := devDir(t)
	first, stdout, _ := devProcess(t, "--data", dir, "--http-addr", "127.0.0.1:0")
	push := curlLine.FindString(stdout.await(ctx, t, "Ctrl-C stops"))
	require.NoError(t, exec.CommandContext(ctx, "sh", "-c", push).Run())
	require.NoError(t, first.Process.Kill())
	require.Error(t, first.Wait())

	again, stdout, stderr := devProcess(t, "--data", dir, "--http-addr", "127.0.0.1:0")
	lines := curlLine.FindAllString(stdout.await(ctx, t, "Ctrl-C stops"), -1)
	answer, err := exec.CommandContext(ctx, "sh", "-c", lines[1]).CombinedOutput()
	require.NoError(t, err)
	require.Contains(t, string(answer), `"hello":"world"`, "the pushed message is kept")
	require.NoError(t, again.Process.Signal(syscall.SIGTERM))
	require.NoError(t, again.Wait(), stderr.String())
	requireFree(t, dir)
}

func TestDevOnATakenPortExitsWith1(t *testing.T) {
	t.Parallel()
	var lc net.ListenConfig
	taken, err := lc.Listen(t.Context(), "tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, taken.Close()) }()
	dir := devDir(t)
	cmd, stdout, stderr := devProcess(t, "--data", dir, "--http-addr", taken.Addr().String())
	require.Error(t, cmd.Wait())
	require.Equal(t, 1, cmd.ProcessState.ExitCode(), stderr.String())
	require.Contains(t, stderr.String(), taken.Addr().String())
	require.Empty(t, stdout.String())
	requireFree(t, dir)
}
