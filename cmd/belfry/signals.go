package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// signalContext returns a context that ends at the first SIGINT or SIGTERM, which
// asks for a stop in order. A second signal exits at once, with 128 plus its
// number as shells expect. stop gives the signals back and releases everything.
func signalContext() (ctx context.Context, stop func()) {
	received := make(chan os.Signal, 2) // a signal nobody has read yet is not lost
	signal.Notify(received, syscall.SIGINT, syscall.SIGTERM)
	ctx, release := watchSignals(received, os.Stderr, os.Exit)
	return ctx, func() {
		signal.Stop(received)
		release()
	}
}

// watchSignals is signalContext with the process as an argument. exit may return
// in a test only.
func watchSignals(received <-chan os.Signal, stderr io.Writer, exit func(code int)) (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case s := <-received:
			// When nobody can read it, the stop goes on all the same.
			_, _ = fmt.Fprintf(stderr, "belfry: %s: stopping in order; a second signal exits at once\n", s)
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
