package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/httpcall"
	"github.com/belfry-mq/belfry/test/pgtest"
	"github.com/belfry-mq/belfry/test/stopwatch"
)

// noDatabaseURL is the URL of a database that does not exist.
const noDatabaseURL = "postgres://u@127.0.0.1:1/none"

// serveProcess starts `belfry serve` in a separate process. It returns the pipe that receives the standard output and
// the log of the process.
func serveProcess(t *testing.T, url string) (*exec.Cmd, *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	cmd := startBelfry(t, w, w, []string{"serve", "--log-level", "debug", "--http-addr", "127.0.0.1:0", "--database-url", url},
		"BELFRY_LOG_FORMAT=json", "BELFRY_HTTP_DRAIN_DELAY=0s", "BELFRY_SPOOL_DIR="+t.TempDir())
	require.NoError(t, w.Close())
	t.Cleanup(func() { _ = r.Close() }) // the test may have closed it
	return cmd, r
}

func readUntilListening(t *testing.T, log *bufio.Reader) { readUntil(t, log, "listening") }

// readUntil reads the log up to the first line with the given message, and returns the addr field of that line.
func readUntil(t *testing.T, log *bufio.Reader, message string) (addr string) {
	t.Helper()
	for {
		text, err := log.ReadString('\n')
		require.NoError(t, err)
		var line struct{ Msg, Addr string }
		require.NoError(t, json.Unmarshal([]byte(text), &line), text)
		if line.Msg == message {
			return line.Addr
		}
	}
}

// The standard output and the log of this server go to a pipe that nobody reads. The server drops log lines and
// counts them. It continues to answer requests, and stops within 5 s.
func TestServerWorksWhileNobodyReadsItsLog(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	cmd, log := serveProcess(t, dsn)
	base := "http://" + readUntil(t, bufio.NewReader(log), "ready")
	send := func(method, target string) httpcall.Reply {
		reply, err := httpcall.Send(t.Context(), http.DefaultClient, base, httpcall.Call{Method: method, Target: target})
		require.NoError(t, err)
		return reply
	}
	conn, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	for round, full := 0, false; !full; round++ {
		_, err = conn.Exec(t.Context(), `SELECT count(pg_notify('belfry_await', 'not from belfry.await ' || i)) FROM generate_series(1, 2000) i`)
		require.NoError(t, err)
		_, err = conn.Exec(t.Context(), `SELECT belfry.push('q', to_json($1::int))`, round)
		require.NoError(t, err)
		popped := send(http.MethodGet, "/api/v1/pop/queue/q?wait=true&timeout=30000&autoAck=true")
		require.Equal(t, http.StatusOK, popped.Status, "%s", popped.Raw)
		require.Contains(t, string(popped.Raw), fmt.Sprintf(`"data":%d`, round))
		require.Equal(t, http.StatusOK, send(http.MethodGet, "/readyz").Status)
		full = !strings.Contains(string(send(http.MethodGet, "/metrics/prometheus").Raw), "belfry_log_dropped_total 0\n")
	}
	stopping := stopwatch.Start(t)
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, cmd.Wait())
	stopping.Within(t, 5*time.Second, "the server stops after SIGTERM")
}

// In `belfry serve 2>&1 | head`, head closes the pipe. The server then stops gracefully, as after a signal.
func TestAServerStopsWhenNobodyReadsItsLog(t *testing.T) {
	t.Parallel()
	cmd, log := serveProcess(t, noDatabaseURL)
	readUntilListening(t, bufio.NewReader(log))
	require.NoError(t, log.Close())
	require.NoError(t, cmd.Wait(), "the server logs that the database is unreachable, finds the pipe closed, and stops")
}

// A closed terminal stops the server like Ctrl-C.
func TestAClosedTerminalStopsTheServer(t *testing.T) {
	t.Parallel()
	cmd, log := serveProcess(t, noDatabaseURL)
	lines := bufio.NewReader(log)
	readUntilListening(t, lines)
	require.NoError(t, cmd.Process.Signal(syscall.SIGHUP))
	var text strings.Builder
	_, err := lines.WriteTo(&text)
	require.NoError(t, err)
	require.NoError(t, cmd.Wait())
	require.Contains(t, text.String(), "stopping gracefully")
}
