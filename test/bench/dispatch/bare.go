package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/belfry-mq/belfry/test/bench/rig"
)

// bareChild is the name of a child: an HTTP server that does nothing but hold requests.
const bareChild = "bare-server"

func startBare(ctx context.Context) (*rig.Server, error) { return rig.StartListening(ctx, bareChild) }

// serveBare holds requests for the same time as Belfry does, and does nothing else. Its cost is the cost of HTTP.
func serveBare(in *bufio.Reader, out io.Writer) error {
	ctx := rig.UntilEnd(in)
	var config net.ListenConfig
	ln, err := config.Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, ln.Addr()); err != nil {
		return errors.Join(err, ln.Close())
	}
	server := &http.Server{Handler: http.HandlerFunc(hold), ReadHeaderTimeout: 10 * time.Second}
	go func() {
		<-ctx.Done()
		_ = server.Close() // Serve returns
	}()
	if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving on %s: %w", ln.Addr(), err)
	}
	return nil
}

// hold answers 204 a little before the timeout of the request, as Belfry does. It answers a request without a timeout
// immediately.
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
