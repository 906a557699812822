package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
	"go.uber.org/zap"
)

// headerTimeout bounds how long a client may take to send its headers, and
// idleTimeout how long a connection may be idle between two requests.
const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
)

// Server serves the API on one listener.
type Server struct {
	deps    Deps
	cfg     Config
	origins origins
	http    *http.Server
	// document is what GET /openapi.json answers.
	document document
	// draining is closed by Drain.
	draining chan struct{}
}

// New returns a Server. It serves nothing before Listen and Serve.
func New(cfg Config, deps Deps) *Server {
	s := &Server{deps: deps, cfg: cfg, origins: newOrigins(cfg.CORSOrigins), document: newDocument(deps.Version), draining: make(chan struct{})}
	if s.origins.any() {
		deps.Log.Warn("http.cors_origins allows every web page to use this server")
	}
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.HTTPErrorHandler = s.handleError
	e.IPExtractor = clientAddress(cfg.TrustedProxies)
	e.Pre(s.limitTime, s.origins.headers)
	e.Use(s.measure, s.refuse)
	for _, r := range s.routeTable() {
		e.Add(r.Method, r.Path, r.handler)
	}
	s.http = &http.Server{
		Handler: e, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: int(cfg.MaxHeaderBytes),
		ErrorLog:       zap.NewStdLog(deps.Log.Named("http")),
	}
	return s
}

// Handler returns the API as a handler.
func (s *Server) Handler() http.Handler { return s.http.Handler }

// Listen opens the listen address. A port in use is an error here, before Serve.
func (s *Server) Listen(ctx context.Context) (net.Listener, error) {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.cfg.Addr)
	if err != nil {
		return nil, fmt.Errorf("listening on %s (http.addr): %w; choose another with --http-addr", s.cfg.Addr, err)
	}
	return ln, nil
}

// Serve answers requests. It blocks until Shutdown and then returns nil.
func (s *Server) Serve(ln net.Listener) error {
	if err := s.http.Serve(limitConnections(ln, s.cfg.MaxConnections, s.deps.Metrics.connectionRefused)); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving on %s: %w", ln.Addr(), err)
	}
	return nil
}

// Drain makes /health answer 503, so that load balancers send no new requests.
// The caller calls it once.
func (s *Server) Drain() { close(s.draining) }

// Shutdown accepts no new requests and waits for the requests in flight. After
// http.shutdown_timeout it closes their connections and returns an error.
func (s *Server) Shutdown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.ShutdownTimeout)
	defer cancel()
	if err := s.http.Shutdown(ctx); err != nil {
		closing := s.http.Close()
		return fmt.Errorf("requests were still in flight after %s (http.shutdown_timeout) and were cut off: %w",
			s.cfg.ShutdownTimeout, errors.Join(err, closing))
	}
	return nil
}
