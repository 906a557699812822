package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// closing is the standard error of a command. Its first Write closes the terminal that is the standard input.
type closing struct {
	stdin *os.File
	text  string
}

func (c *closing) Write(p []byte) (int, error) {
	c.text += string(p)
	_ = c.stdin.Close() // a later Write closes it again; the error is ignored
	return len(p), nil
}

// A command that reads input from a terminal prints a line that says so.
func TestACommandReportsThatItReadsATerminal(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"token inspect", "token revoke", "push q --file -", "apply -f -", "tx --file -"} {
		terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
		require.NoError(t, err)
		stderr := &closing{stdin: terminal}
		cmd := newRootCmd()
		cmd.SetIn(terminal)
		cmd.SetErr(stderr)
		cmd.SetArgs(strings.Fields(line))
		require.Error(t, cmd.ExecuteContext(t.Context()), line)
		require.Contains(t, stderr.text, "reading standard input until Ctrl-D\n", line)
	}
}
