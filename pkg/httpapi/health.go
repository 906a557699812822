package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
)

// healthTimeout bounds the ping of the database.
const healthTimeout = 2 * time.Second

// health serves GET /health: 200 when this server can work now, else 503 with the
// reason.
func (s *Server) health(c echo.Context) error {
	status, state, database := http.StatusOK, "healthy", "connected"
	ctx, cancel := context.WithTimeout(c.Request().Context(), healthTimeout)
	defer cancel()
	if err := s.deps.Ping(ctx); err != nil {
		status, state, database = http.StatusServiceUnavailable, "unhealthy", "disconnected"
	}
	select {
	case <-s.draining:
		status, state = http.StatusServiceUnavailable, "stopping"
	default:
	}
	b := fmt.Appendf(nil, `{"status":%q,"database":%q`, state, database)
	b = wire.AppendString(b, `,"server":"belfry","version":`, s.deps.Version)
	l := s.deps.Listener()
	b = fmt.Appendf(b, `,"waiting":%d,"listener":{"state":%q,"secondsSinceProof":%.3f}}`,
		s.deps.Popper.Waiting(), l.State, l.Proof.Seconds())
	return wire.Answer(c, status, b)
}
