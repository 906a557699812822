package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/labstack/echo/v4"
)

// healthTimeout bounds the sign of life asked of the database.
const healthTimeout = 2 * time.Second

// health serves GET /health: 200 when this server can do its work now, else 503
// with the reason.
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
	b := fmt.Appendf(nil, `{"status":%q,"database":%q,"server":"belfry","version":`, state, database)
	b = appendString(b, s.deps.Version)
	l := s.listener()
	b = fmt.Appendf(b, `,"waiting":%d,"listener":{"state":%q,"secondsSinceProof":%.3f}}`,
		s.deps.Popper.Waiting(), l.State, l.SecondsSinceProof)
	return answer(c, status, b)
}

func validText(s string) bool { return utf8.ValidString(s) }

func withoutNUL(s string) string { return strings.ReplaceAll(s, "\x00", "\uFFFD") }
