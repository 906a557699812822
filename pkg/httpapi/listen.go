package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
)

// internalConnections bounds the connections of http.internal_addr. They do not count in
// http.max_connections. So the server answers probes while that limit is reached.
const internalConnections = 100

// Listeners are the open addresses of a server.
type Listeners struct {
	net.Listener              // http.addr
	Internal     net.Listener // http.internal_addr, or nil
}

// httpServer returns a server of the routes in api, which may be replaced.
func (s *Server) httpServer(api *atomic.Pointer[echo.Echo]) *http.Server {
	// HTTP/2 would carry up to 250 requests on one connection. Then http.max_connections would not bound
	// the requests that wait, and Shutdown could not end slow requests before its timeout.
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { api.Load().ServeHTTP(w, r) }),
		ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, Protocols: protocols,
		MaxHeaderBytes: int(s.cfg.MaxHeaderBytes),
		ErrorLog:       zap.NewStdLog(s.start.Log.Named("http")),
	}
}

// Listen reads the certificate and opens the listen addresses. A file that cannot be used and a port
// in use are errors here, before Serve. It is called once.
func (s *Server) Listen(ctx context.Context) (Listeners, error) {
	if err := s.openTLS(); err != nil {
		return Listeners{}, err
	}
	var config net.ListenConfig
	api, err := config.Listen(ctx, "tcp", s.cfg.Addr)
	if err != nil {
		return Listeners{}, fmt.Errorf("listening on %s (http.addr): %w; choose another with --http-addr", s.cfg.Addr, err)
	}
	if s.cfg.InternalAddr == "" {
		return Listeners{Listener: api}, nil
	}
	internal, err := config.Listen(ctx, "tcp", s.cfg.InternalAddr)
	if err != nil {
		_ = api.Close() // nothing was served
		return Listeners{}, fmt.Errorf("listening on %s (http.internal_addr): %w", s.cfg.InternalAddr, err)
	}
	return Listeners{Listener: api, Internal: internal}, nil
}

// Serve answers requests. It blocks until Shutdown and then returns nil. If one address fails, it
// closes the other one.
func (s *Server) Serve(ln Listeners) error {
	var serving errgroup.Group
	serve := func(ln net.Listener, serve func() error) {
		serving.Go(func() error {
			err := serve()
			if errors.Is(err, http.ErrServerClosed) {
				return nil
			}
			return errors.Join(fmt.Errorf("serving on %s: %w", ln.Addr(), err), s.http.Close(), s.internal.Close())
		})
	}
	serve(ln, func() error {
		counted := limitedListener{ln.Listener, s.connections, s.cfg.HasTLS()}
		if s.cfg.HasTLS() {
			return s.http.ServeTLS(counted, "", "")
		}
		return s.http.Serve(counted)
	})
	if ln.Internal != nil {
		few := newConnections(internalConnections, s.start.Metrics.connectionRefused)
		serve(ln.Internal, func() error { return s.internal.Serve(limitedListener{ln.Internal, few, false}) })
	}
	return serving.Wait()
}

// Shutdown accepts no new requests and waits for the requests in flight. A client
// that sends slowly has half of http.shutdown_timeout, and then gets 408. A client that reads slowly has
// four fifths. After http.shutdown_timeout, Shutdown closes the connections of the other requests and
// returns an error. It closes http.internal_addr last.
func (s *Server) Shutdown(ctx context.Context) error {
	now, timeout := time.Now(), s.cfg.ShutdownTimeout
	s.connections.endBy(ends{read: now.Add(timeout / 2), write: now.Add(timeout * 4 / 5)})
	ctx, cancel := context.WithTimeout(ctx, s.cfg.ShutdownTimeout)
	defer cancel()
	defer func() { _ = s.internal.Close() }()
	if err := s.http.Shutdown(ctx); err != nil {
		closing := s.http.Close()
		return fmt.Errorf("requests were still in flight after %s (http.shutdown_timeout) and were cut off: %w",
			s.cfg.ShutdownTimeout, errors.Join(err, closing))
	}
	return nil
}
