package httpapi

import (
	"errors"
	"math"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// handleError turns an error of a handler into an answer.
func (s *Server) handleError(err error, c echo.Context) {
	// After a body that was too slow, net/http has ended the context of a client that is still there.
	disconnected := c.Request().Context().Err() != nil && queue.CodeOf(err) != queue.CodeTooSlow
	if c.Response().Committed || disconnected {
		return // the answer has begun, or nobody reads it
	}
	var routing *echo.HTTPError
	if errors.As(err, &routing) {
		s.answerError(c, routing.Code, routingText(routing.Code, c.Request()))
		return
	}
	var coded *queue.Error
	if !errors.As(err, &coded) {
		coded = &queue.Error{Code: queue.CodeInternal, Err: err}
	}
	if coded.RetryAfter > 0 {
		seconds := int(math.Ceil(coded.RetryAfter.Seconds()))
		c.Response().Header().Set("Retry-After", strconv.Itoa(seconds))
	}
	s.deps.Metrics.errors.WithLabelValues(string(coded.Code)).Inc()
	text := coded.Message
	switch coded.Code {
	case queue.CodeInternal:
		id := queue.NewID().String()
		s.deps.Log.Error("a request failed", zap.String("error_id", id), zap.String("method", c.Request().Method),
			zap.String("path", c.Request().URL.Path), zap.Error(err))
		text = "internal error; the server's log has it under error_id " + id
	case queue.CodeUnavailable:
		s.deps.Log.Warn("the database is not available", zap.String("path", c.Request().URL.Path), zap.Error(err))
	default:
	}
	s.answerError(c, wire.StatusOf(coded.Code), text)
}

func routingText(code int, r *http.Request) string {
	switch code {
	case http.StatusNotFound:
		return "no such endpoint: " + r.Method + " " + r.URL.Path
	case http.StatusMethodNotAllowed:
		return r.Method + " is not allowed on " + r.URL.Path
	default:
		return http.StatusText(code)
	}
}

func (s *Server) answerError(c echo.Context, status int, text string) {
	body := append(wire.AppendString(nil, `{"error":`, text), '}')
	if err := wire.Answer(c, status, body); err != nil {
		s.deps.Log.Debug("an error answer could not be sent", zap.Error(err))
	}
}
