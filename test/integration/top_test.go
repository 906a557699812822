package integration_test

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/cli"
)

// belfry top must show the figures of the server on a terminal of 80 columns and 24 lines. Its keys must change the server.
func TestTopDrawsTheFiguresOfTheServer(t *testing.T) {
	t.Parallel()
	s := start(t)
	x := &terminal{t: t, server: s.base, ran: map[string]bool{}}
	x.table("STATUS QUEUE TRANSACTION-ID MESSAGE-ID\nqueued orders a ID", "push", "orders", "1", "--transaction-id", "a")
	top := openTop(t, s.base)

	top.waitFor(func() bool { return top.row("orders") == "orders 0 0 0 0 0 1 0 -" })
	require.Equal(t, "1", encode(member(x.json("queue", "get", "orders"), "totals", "messages", "pending")))
	top.waitFor(func() bool { return strings.Contains(top.row("instances 1:"), "listener proven") })

	answered := make(chan struct{})
	go func() {
		defer close(answered)
		consumer := &terminal{t: t, server: s.base, ran: map[string]bool{}}
		consumer.json("pop", "idle", "--wait", "1m", "--auto-ack")
	}()
	top.waitFor(func() bool { return strings.HasPrefix(top.row("idle"), "idle 0 0 0 0 1 ") })
	require.Equal(t, "1", encode(member(x.json("waiting"), "groups", 0, "waiting")))
	x.run("3\n4\n5\n", "push", "idle")
	<-answered
	top.waitFor(func() bool {
		return strings.HasPrefix(top.row("pushed"), "pushed 0/s") && strings.HasPrefix(top.row("idle"), "idle 0 0 0 0 0 ")
	})

	for _, key := range []string{"/", "o", "r", "d", "\r", "p", "y"} {
		_, err := io.WriteString(top.keyboard, key)
		require.NoError(t, err)
	}
	top.waitFor(func() bool { return strings.HasPrefix(top.row("(paused)"), "(paused) orders") })
	require.Equal(t, true, member(x.json("queue", "get", "orders"), "queue", "paused"))
	_, err := io.WriteString(top.keyboard, "e")
	require.NoError(t, err)
	top.waitFor(func() bool { return top.row("No group reads") != "" })
}

// topScreen is a terminal in which belfry top runs.
type topScreen struct {
	t        *testing.T
	keyboard *os.File
	screen   vt10x.Terminal
	// drawn receives an element when the program has drawn.
	drawn chan struct{}
}

// openTop runs belfry top until the test ends.
func openTop(t *testing.T, server string) *topScreen {
	t.Helper()
	control, tty, err := pty.Open()
	require.NoError(t, err)
	require.NoError(t, pty.Setsize(control, &pty.Winsize{Rows: 24, Cols: 80}))
	s := &topScreen{t, control, vt10x.New(vt10x.WithSize(80, 24)), make(chan struct{}, 1)}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		s.draw()
	}()
	root := &cobra.Command{Use: "belfry", SilenceErrors: true, SilenceUsage: true}
	root.AddGroup(&cobra.Group{ID: cli.GroupID})
	root.AddCommand(cli.Commands()...)
	root.SetIn(tty)
	root.SetOut(tty)
	root.SetArgs([]string{"top", "--server", server})
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(context.WithoutCancel(t.Context())) }()
	t.Cleanup(func() {
		_, err := io.WriteString(control, "\x03")
		require.NoError(t, err)
		require.NoError(t, <-ended)
		require.NoError(t, tty.Close())
		<-closed
		require.NoError(t, control.Close())
	})
	return s
}

// draw writes the output of the program to the screen until the terminal is closed.
func (s *topScreen) draw() {
	var chunk [4096]byte
	for {
		n, err := s.keyboard.Read(chunk[:])
		if err != nil {
			return
		}
		_, _ = s.screen.Write(chunk[:n]) // never fails
		select {
		case s.drawn <- struct{}{}:
		default:
		}
	}
}

// row returns the first line of the screen that begins with a text. Columns are separated by one space.
func (s *topScreen) row(begins string) string {
	for line := range strings.Lines(s.screen.String()) {
		if line = strings.Join(strings.Fields(line), " "); strings.HasPrefix(line, begins) {
			return line
		}
	}
	return ""
}

// waitFor blocks until wanted returns true. It calls wanted after each drawing.
func (s *topScreen) waitFor(wanted func() bool) {
	s.t.Helper()
	late := time.After(patience)
	for !wanted() {
		select {
		case <-s.drawn:
		case <-late:
			require.FailNow(s.t, "the screen did not become as expected; it shows", "%s", s.screen.String())
		}
	}
}
