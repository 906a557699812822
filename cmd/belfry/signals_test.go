package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFirstSignalStopsSecondExits(t *testing.T) {
	t.Parallel()
	for first, code := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		received, exited := make(chan os.Signal), make(chan int, 1)
		var stderr bytes.Buffer
		ctx, stop := watchSignals(received, &stderr, func(code int) { exited <- code })
		require.NoError(t, ctx.Err())
		received <- first
		<-ctx.Done()
		require.Empty(t, exited, "the first signal must not exit")
		received <- first
		require.Equal(t, code, <-exited)
		stop()
		require.Contains(t, stderr.String(), "second signal exits at once")
	}
}

// Only servers print the sentence about a second signal. Other commands end at once.
func TestOnlyServersAnnounceTheirStop(t *testing.T) {
	t.Parallel()
	for line, server := range map[string]bool{
		"serve": true, "dev --http-addr :0": true, "--config x serve": true, "tail orders -f": false, "push serve": false, "migrate up": false, "nosuch": false, "": false,
	} {
		require.Equal(t, server, isServer(strings.Fields(line)), line)
	}
	asked := make(chan struct{}, 1)
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	defer silent.Close()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), argsVariable+`=["pop","q","--wait","1m","--server","`+silent.URL+`"]`)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	require.NoError(t, cmd.Start())
	<-asked
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	require.Error(t, cmd.Wait())
	require.NotContains(t, stderr.String(), "signal")
}

func TestNothingIsPrintedWithoutASignal(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	ctx, stop := watchSignals(make(chan os.Signal), &stderr, func(int) { t.Error("exit was called without a signal") })
	stop()
	require.ErrorIs(t, ctx.Err(), context.Canceled)
	require.Empty(t, stderr.String())
}
