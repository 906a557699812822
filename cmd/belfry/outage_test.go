package main

import (
	"bytes"
	"context"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// watchedText is a writer. It calls end when the written text contains want.
type watchedText struct {
	want string
	end  func()

	mu   sync.Mutex
	text bytes.Buffer
}

func (w *watchedText) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.Write(b)
	if strings.Contains(w.text.String(), w.want) {
		w.end()
	}
	return len(b), nil
}

// A command that waits for an unreachable server prints this fact and the time after which it gives up.
func TestACommandReportsThatItWaitsForTheServer(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := listener.Addr().String()
	require.NoError(t, listener.Close())
	for _, line := range []string{"push q 1", "tail q -f --group g", "push q 1 -q", "dlq export"} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var out bytes.Buffer
			stderr := &watchedText{want: "gives up in", end: cancel}
			execute(ctx, append(strings.Fields(line), "--server", "http://anna:s3cret@"+address), &out, stderr)
			require.Regexp(t, `belfry: the command waits for the server at http://`+address+` \(.*connection refused\); it gives up in \d+s\n`, stderr.text.String())
			require.NotContains(t, stderr.text.String(), "s3cret")
			require.Empty(t, out.String())
		})
	}
}

// A command that does not repeat its request fails at once if the server is unreachable.
func TestACommandThatDoesNotWaitPrintsNoWaitMessage(t *testing.T) {
	t.Parallel()
	code, _, stderr := belfry(t, "queue", "list", "--server", "http://127.0.0.1:1")
	require.Equal(t, 1, code)
	require.NotContains(t, stderr, "waits")
}
