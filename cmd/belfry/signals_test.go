package main

import (
	"bytes"
	"context"
	"os"
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

func TestWithoutSignalNothingIsPrinted(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	ctx, stop := watchSignals(make(chan os.Signal), &stderr, func(int) { t.Error("exit was called without a signal") })
	stop()
	require.ErrorIs(t, ctx.Err(), context.Canceled)
	require.Empty(t, stderr.String())
}
