package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/belfry-mq/belfry/pkg/process/logbuffer"
)

// signalContext returns a context that ends at the first SIGINT, SIGTERM or SIGHUP (closed terminal), for a graceful
// stop. A second signal exits at once with the code 128 plus the signal number, as shells expect. With announce, the
// first signal prints a line on standard error. stop unregisters the handler and ends its goroutine. Neither the
// handler nor stop waits for the reader of standard error.
func signalContext(announce bool) (ctx context.Context, stop func()) {
	received := make(chan os.Signal, 2) // room for both signals
	signal.Notify(received, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	stderr := logbuffer.New(os.Stderr, nil)
	announced := io.Discard
	if announce {
		announced = stderr
	}
	ctx, release := watchSignals(received, announced, os.Exit)
	return ctx, func() {
		signal.Stop(received)
		release()
		_ = stderr.Sync() // text that Sync cannot write is lost
	}
}

// ignoreClosedPipes makes a write to a closed standard output or standard error return an error. Without it, the
// write ends the process. again restores the default. Child processes do not inherit the change.
func ignoreClosedPipes() (again func()) {
	ignored := make(chan os.Signal, 1)
	signal.Notify(ignored, syscall.SIGPIPE)
	return func() { signal.Stop(ignored) }
}

// watchSignals is signalContext with parameters for the signals, standard error and exit. exit returns only in tests.
func watchSignals(received <-chan os.Signal, stderr io.Writer, exit func(code int)) (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case s := <-received:
			// Standard error may be closed, so the error of this write is ignored. The write must not block.
			_, _ = fmt.Fprintf(stderr, "belfry: %s: stopping gracefully; a second signal exits at once\n", s)
			cancel()
		case <-over:
			return
		}
		select {
		case s := <-received:
			code := 1
			if number, ok := s.(syscall.Signal); ok {
				code = 128 + int(number)
			}
			exit(code)
		case <-over:
		}
	}()
	return ctx, func() {
		close(over)
		<-watched
		cancel()
	}
}
