package httpapi

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/httpapi/data"
)

// StartDeps are what a server needs while it starts, before the database has answered.
type StartDeps struct {
	// Ping returns an error when the database does not answer. It does not wait for a connection of
	// the pool.
	Ping    func(ctx context.Context) error
	Metrics *Metrics
	Version string
	Log     *zap.Logger
}

// Phase is what a server that starts is doing. /readyz shows it.
type Phase string

// The phases before Open.
const (
	// Starting: the server waits for the database, or constructs its rooms.
	Starting Phase = "starting"
	// Migrating: the server migrates the schema.
	Migrating Phase = "migrating"
	// serving: Open was called.
	serving Phase = ""
)

// startTexts are the answers to requests in the phases before Open.
var startTexts = map[Phase]string{
	Starting:  "starting: the server waits for its database; send the request again",
	Migrating: "starting: the server migrates the schema of its database; send the request again",
}

// SetPhase sets what /readyz shows before Open.
func (s *Server) SetPhase(p Phase) { s.phase.Store(&p) }

func (s *Server) currentPhase() Phase { return *s.phase.Load() }

// Open makes the server answer every route. It is called once.
func (s *Server) Open(deps Deps) {
	s.deps = deps
	s.start.Metrics.also = []data.Meter{deps.Events, s.sent}
	s.serveRoutes(s.routeTable(), s.internalRoutes(), s.handleError)
	s.SetPhase(serving)
}

// startingRoutes are the routes before Open. Each other request gets 503.
func (s *Server) startingRoutes() []Route {
	return s.probes(func() ListenerState { return ListenerState{Listener: api.Listener{State: "starting"}} }, func() int { return 0 }, nil)
}

// answerStarting answers a request whose route does not exist yet.
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
