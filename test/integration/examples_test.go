package integration_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// example is a running program of the folder examples.
type example struct {
	client
	cmd   *exec.Cmd
	lines chan string // the lines that it prints; closed when it ends
}

// startExample starts a program of examples on the server of c.
func startExample(c client, program string, args ...string) *example {
	c.t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = "../../examples"
	cmd.Env = append(os.Environ(), "DATABASE_URL="+c.dsn, "BELFRY_URL="+c.base)
	out, err := cmd.StdoutPipe()
	require.NoError(c.t, err)
	cmd.Stderr = cmd.Stdout
	e := &example{client: c, cmd: cmd, lines: make(chan string, 100)}
	require.NoError(c.t, cmd.Start())
	go func() {
		defer close(e.lines)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			e.lines <- scanner.Text()
		}
	}()
	c.t.Cleanup(func() {
		_ = cmd.Process.Kill() // fails if the program has ended
		for range e.lines {
		}
		_ = cmd.Wait() // fails if stop has waited already
	})
	return e
}

// next returns the next line. At the end of the output it returns "".
func (e *example) next() string {
	e.t.Helper()
	select {
	case line := <-e.lines:
		return line
	case <-time.After(patience):
		require.FailNow(e.t, "the example printed no further line in time")
		return ""
	}
}

// prints requires that the next lines are want, in any order.
func (e *example) prints(want ...string) {
	e.t.Helper()
	var got []string
	for range want {
		got = append(got, e.next())
	}
	require.ElementsMatch(e.t, want, got)
}

// stop sends SIGTERM to the example, as an operator does. The example must end without an error, print only the lines last,
// leave no messages and hold no lease.
func (e *example) stop(last ...string) {
	e.t.Helper()
	require.NoError(e.t, e.cmd.Process.Signal(syscall.SIGTERM))
	e.prints(last...)
	for line := range e.lines {
		require.Empty(e.t, line)
	}
	require.NoError(e.t, e.cmd.Wait())
	require.Zero(e.t, e.depth("orders"))
	var leases int
	e.scan(e.t, `SELECT count(*) FROM belfry.cursor WHERE lease_id IS NOT NULL`, nil, &leases)
	require.Zero(e.t, leases)
}

func TestExampleOutbox(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "outbox")
	output, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../../examples/outbox").CombinedOutput()
	require.NoError(t, err, "%s", output)
	c := start(t).client(t)
	e := startExample(c, program)
	e.prints(
		`no order and no message for eve: ERROR: new row for relation "stock" violates check constraint "stock_pieces_check" (SQLSTATE 23514)`,
		"invoice of order 1 for ada", "invoice of order 2 for bob")
	e.stop()
	var orders, invoices, messages int
	c.scan(t, `SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM invoice), (SELECT count(*) FROM belfry.message)`, nil, &orders, &invoices, &messages)
	require.Equal(t, []int{2, 2, 2}, []int{orders, invoices, messages})
}
