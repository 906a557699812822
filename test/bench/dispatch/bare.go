package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

const (
	// bareCommand makes the bench be the bare server instead.
	bareCommand = "bare-server"
	// bareAddress names the environment variable with its listen address.
	bareAddress = "BENCH_BARE_ADDR"
)

// serveBare holds requests as long as Belfry does, and does nothing else: what
// it costs is what HTTP costs. It ends with SIGTERM.
func serveBare() error {
	server := &http.Server{
		Addr: os.Getenv(bareAddress), Handler: http.HandlerFunc(hold), ReadHeaderTimeout: 10 * time.Second,
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, os.Interrupt)
	go func() {
		<-stop
		_ = server.Close()
	}()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving on %s: %w", server.Addr, err)
	}
	return nil
}

// hold answers 204 a little before the timeout of the request, as Belfry does;
// a request without one is answered at once.
func hold(w http.ResponseWriter, req *http.Request) {
	millis, err := strconv.Atoi(req.URL.Query().Get("timeout"))
	if err == nil && millis > 0 {
		whole := time.Duration(millis) * time.Millisecond
		timer := time.NewTimer(whole - min(whole/20, 250*time.Millisecond))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-req.Context().Done():
		}
	}
	w.WriteHeader(http.StatusNoContent)
}
