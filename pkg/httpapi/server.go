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

	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/inflight"
)

// headerTimeout bounds how long a client may take to send its headers, and
// idleTimeout how long a connection may be idle between two requests.
const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
)

// Server serves the API on one listener.
type Server struct {
	start    StartDeps
	inflight *inflight.Budget
	deps     Deps // written by Open, read only by the routes that exist since then
	cfg      Config
	origins  origins
	http     *http.Server
	// api answers the requests. Open replaces it.
	api   atomic.Pointer[echo.Echo]
	phase atomic.Pointer[Phase]
	// database is what /readyz knows of the database.
	database    databaseCheck
	connections *connections
	statistics  statisticsLimit
	// document is what GET /openapi.json answers.
	document document
	// draining is closed by Drain.
	draining chan struct{}
}

// New returns a Server that answers only the probes, and every other request with 503, until Open. It
// serves nothing before Listen and Serve.
func New(cfg Config, start StartDeps) *Server {
	s := &Server{
		start: start, cfg: cfg, origins: newOrigins(cfg.CORSOrigins), document: newDocument(start.Version), draining: make(chan struct{}),
		database:    databaseCheck{ping: start.Ping},
		connections: newConnections(cfg.MaxConnections, start.Metrics.connectionRefused),
		statistics:  newStatisticsLimit(),
		inflight:    inflight.NewBudget(cfg.inflightBytes()),
	}
	if s.origins.any() {
		start.Log.Warn("http.cors_origins allows every web page to use this server")
	}
	s.SetPhase(Starting)
	s.api.Store(s.router(s.startingRoutes(), s.answerStarting))
	s.http = &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.api.Load().ServeHTTP(w, r) }),
		ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: int(cfg.MaxHeaderBytes),
		ErrorLog:       zap.NewStdLog(start.Log.Named("http")),
	}
	return s
}

// router returns the handler of some routes. handleError answers the errors of their handlers, and
// requests without a route.
func (s *Server) router(routes []Route, handleError echo.HTTPErrorHandler) *echo.Echo {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.HTTPErrorHandler = handleError
	e.IPExtractor = clientAddress(s.cfg.TrustedProxies)
	e.Pre(s.limitTime, s.origins.headers)
	e.Use(s.measure, s.refuse, wire.ReturnMemory)
	for _, r := range routes {
		e.Add(r.Method, r.Path, s.authorize(r.Right, r.handler))
	}
	return e
}

// Inflight returns the memory of the requests and answers in flight.
func (s *Server) Inflight() *inflight.Budget { return s.inflight }

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
	if err := s.http.Serve(limitedListener{ln, s.connections}); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving on %s: %w", ln.Addr(), err)
	}
	return nil
}

// Drain makes /readyz and /health answer 503, so that load balancers send no new requests. All
// requests are still served. The caller calls it once.
func (s *Server) Drain() { close(s.draining) }

func (s *Server) isDraining() bool {
	select {
	case <-s.draining:
		return true
	default:
		return false
	}
}

// Shutdown accepts no new requests and waits for the requests in flight. A client
// that sends slowly has half of http.shutdown_timeout, and then gets 408. A client that reads slowly has
// four fifths. After http.shutdown_timeout, Shutdown closes the connections of the other requests and
// returns an error.
func (s *Server) Shutdown(ctx context.Context) error {
	now, timeout := time.Now(), s.cfg.ShutdownTimeout
	s.connections.endBy(ends{read: now.Add(timeout / 2), write: now.Add(timeout * 4 / 5)})
	ctx, cancel := context.WithTimeout(ctx, s.cfg.ShutdownTimeout)
	defer cancel()
	if err := s.http.Shutdown(ctx); err != nil {
		closing := s.http.Close()
		return fmt.Errorf("requests were still in flight after %s (http.shutdown_timeout) and were cut off: %w",
			s.cfg.ShutdownTimeout, errors.Join(err, closing))
	}
	return nil
}
