package httpapi

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/httpapi/spans"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/process/inflight"
	"github.com/belfry-mq/belfry/pkg/process/tracing"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// headerTimeout limits how long a client may take to send its headers.
// idleTimeout limits how long a connection may be idle between two requests.
const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
)

// Server serves the API on http.addr, and probes and metrics on http.internal_addr.
type Server struct {
	start    StartDeps
	inflight *inflight.Budget
	deps     Deps // Open sets deps before it adds the routes that use them
	cfg      Config
	origins  origins
	hosts    hosts
	// http serves api on http.addr, and internal serves internalAPI on http.internal_addr.
	http, internal *http.Server
	// api and internalAPI answer the requests. Open replaces them.
	api, internalAPI atomic.Pointer[echo.Echo]
	phase            atomic.Pointer[Phase]
	// database tells /readyz whether the database answers.
	database    databaseCheck
	connections *connections
	statistics  wire.Statistics
	queues      queueMetrics
	// holders has the senders that took the latest leases.
	holders wire.Holders
	// document is the answer to GET /openapi.json.
	document document
	// Drain closes draining. EndStreams closes ending.
	draining, ending chan struct{}
}

// New returns a Server. Until Open is called, it answers only probes, and other requests get 503. It accepts
// connections only after Listen and Serve.
func New(cfg Config, start StartDeps) *Server {
	s := &Server{
		start: start, cfg: cfg, origins: newOrigins(cfg.CORSOrigins), hosts: newHosts(cfg), document: newDocument(start.Version), draining: make(chan struct{}), ending: make(chan struct{}),
		database:    databaseCheck{ping: start.Ping, log: start.Log},
		connections: newConnections(cfg.MaxConnections, start.Metrics.connectionRefused),
		statistics:  wire.NewStatistics(),
		inflight:    inflight.NewBudget(cfg.inflightBytes(), cfg.MaxResponseBytes),
	}
	if s.origins.any() {
		start.Log.Warn("http.cors_origins allows every web page to use this server")
	}
	s.SetPhase(Starting)
	s.serveRoutes(s.startingRoutes(), s.startingRoutes(), s.answerStarting)
	s.http, s.internal = s.httpServer(&s.api), s.httpServer(&s.internalAPI)
	return s
}

// serveRoutes sets the routes of http.addr and of http.internal_addr.
func (s *Server) serveRoutes(api, internal []Route, handleError echo.HTTPErrorHandler) {
	s.api.Store(s.router(api, handleError))
	s.internalAPI.Store(s.router(internal, handleError))
}

// router returns a handler for the routes. handleError answers requests whose handler returned an error, and
// requests without a route.
func (s *Server) router(routes []Route, handleError echo.HTTPErrorHandler) *echo.Echo {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.HTTPErrorHandler = handleError
	e.IPExtractor = clientAddress(s.cfg.TrustedProxies)
	e.Pre(identifyRequest, s.limitTime, s.origins.headers, s.identify)
	if s.start.Tracer != nil {
		e.Use(spans.Middleware(s.start.Tracer))
	}
	changing := map[string]bool{}
	for _, r := range routes {
		changing[r.Path] = changing[r.Path] || r.Right&Changes != 0
	}
	e.Use(s.measure, s.refuseHost(s.deps.Auth), s.refuse(s.deps.Auth, changing), wire.CountMemory(s.inflight))
	for _, r := range routes {
		e.Add(r.Method, r.Path, s.authorize(r.Right, limitBody(r.Right, r.handler)))
	}
	return e
}

// Inflight returns the budget for the memory of requests and answers in flight.
func (s *Server) Inflight() *inflight.Budget { return s.inflight }

// Handler returns the API as a handler.
func (s *Server) Handler() http.Handler { return s.http.Handler }

// Drain makes /readyz and /health answer 503, so that load balancers send no new requests. The server
// still serves all requests. Call Drain once.
func (s *Server) Drain() { close(s.draining) }

// EndStreams ends all streams at once. It does not end waiting pops. Call EndStreams once.
func (s *Server) EndStreams() { close(s.ending) }

func (s *Server) isDraining() bool {
	select {
	case <-s.draining:
		return true
	default:
		return false
	}
}

// StartDeps has the values that a server needs before the database has answered.
type StartDeps struct {
	// Ping returns an error if the database does not answer. It does not wait for a connection of
	// the pool.
	Ping    func(ctx context.Context) error
	Metrics *Metrics
	Version string
	// Tracer makes spans of requests. Nil: there are no spans.
	Tracer *tracing.Tracer
	Log    *zap.Logger
}

// Phase is the phase of the start of a server. /readyz shows it.
type Phase string

// The phases before Open.
const (
	// Starting: the server waits for the database, or constructs its packages.
	Starting Phase = "starting"
	// Migrating: the server migrates the schema.
	Migrating Phase = "migrating"
	// serving: Open was called.
	serving Phase = ""
)

// startTexts has the error text for requests in each phase before Open.
var startTexts = map[Phase]string{
	Starting:  "starting: the server waits for its database; send the request again",
	Migrating: "starting: the server migrates the schema of its database; send the request again",
}

// SetPhase sets the phase that /readyz shows before Open.
func (s *Server) SetPhase(p Phase) { s.phase.Store(&p) }

func (s *Server) currentPhase() Phase { return *s.phase.Load() }

// Open makes the server answer every route. Call Open once.
func (s *Server) Open(deps Deps) {
	s.deps = deps
	s.serveRoutes(s.Routes(), s.internalRoutes(), s.handleError)
	s.SetPhase(serving)
}

// startingRoutes returns the routes before Open.
func (s *Server) startingRoutes() []Route {
	return s.probes(func() ListenerState { return ListenerState{Listener: api.Listener{State: "starting"}} }, func() int { return 0 }, nil)
}

// answerStarting answers 503 to a request without a route before Open.
func (s *Server) answerStarting(_ error, c echo.Context) {
	if c.Response().Committed {
		return
	}
	text, starting := startTexts[s.currentPhase()]
	if !starting { // Open was called after the request arrived
		text = startTexts[Starting]
	}
	c.Response().Header().Set("Retry-After", "1")
	s.answerError(c, http.StatusServiceUnavailable, text)
}

// maxRequestID is the maximum number of bytes of a client's request id. A longer id is replaced.
const maxRequestID = 64

// identifyRequest sets the header X-Request-Id of each answer.
func identifyRequest(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		c.Response().Header().Set(echo.HeaderXRequestID, requestID(c.Request().Header.Get(echo.HeaderXRequestID)))
		return next(c)
	}
}

// idOf returns the request id that identifyRequest has set.
func idOf(c echo.Context) string { return c.Response().Header().Get(echo.HeaderXRequestID) }

// fieldsOf returns the log fields of a request: its id, method and path.
func fieldsOf(c echo.Context) zap.Field {
	return zap.Inline(zapcore.ObjectMarshalerFunc(func(to zapcore.ObjectEncoder) error {
		to.AddString("request_id", idOf(c))
		to.AddString("method", c.Request().Method)
		to.AddString("path", c.Request().URL.Path)
		tracing.AddFields(c.Request().Context(), to)
		return nil
	}))
}

// requestID returns the request id that a client sent if it has at most maxRequestID bytes, all printable
// ASCII. Otherwise it returns a new id.
func requestID(sent string) string {
	if len(sent) == 0 || len(sent) > maxRequestID {
		return queue.NewID().String()
	}
	for i := range len(sent) {
		if sent[i] < ' ' || sent[i] > '~' {
			return queue.NewID().String()
		}
	}
	return sent
}
