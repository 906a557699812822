package main

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// serveProcess starts `belfry serve` with a database that does not exist, in a process of its own, and returns the pipe
// that its log goes to.
func serveProcess(t *testing.T) (*exec.Cmd, *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	args, err := json.Marshal([]string{"serve", "--log-level", "debug", "--http-addr", "127.0.0.1:0", "--database-url", "postgres://u@127.0.0.1:1/none"})
	require.NoError(t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), argsVariable+"="+string(args), "BELFRY_CONFIG=")
	cmd.Stderr = w
	require.NoError(t, cmd.Start())
	require.NoError(t, w.Close())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has ended, unless the test failed
		_ = r.Close()
	})
	return cmd, r
}

func readUntilListening(t *testing.T, log *bufio.Reader) {
	t.Helper()
	for {
		line, err := log.ReadString('\n')
		require.NoError(t, err)
		if strings.Contains(line, "listening") {
			return
		}
	}
}

// `belfry serve 2>&1 | head` stops like a signal does.
func TestAServerStopsWhenNobodyReadsItsLog(t *testing.T) {
	t.Parallel()
	cmd, log := serveProcess(t)
	readUntilListening(t, bufio.NewReader(log))
	require.NoError(t, log.Close())
	require.NoError(t, cmd.Wait(), "the database is away, so the server logs again and finds the pipe closed")
}

// A closed terminal stops the server like Ctrl-C.
func TestAClosedTerminalStopsTheServer(t *testing.T) {
	t.Parallel()
	cmd, log := serveProcess(t)
	lines := bufio.NewReader(log)
	readUntilListening(t, lines)
	require.NoError(t, cmd.Process.Signal(syscall.SIGHUP))
	var text strings.Builder
	_, err := lines.WriteTo(&text)
	require.NoError(t, err)
	require.NoError(t, cmd.Wait())
	require.Contains(t, text.String(), "stopping gracefully")
}
