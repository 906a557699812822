package httpapi

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// statusOf is the one table from error code to status.
var statusOf = map[queue.Code]int{
	queue.CodeInvalid:     http.StatusBadRequest,
	queue.CodeTooLarge:    http.StatusRequestEntityTooLarge,
	queue.CodeNotFound:    http.StatusNotFound,
	queue.CodeLeaseGone:   http.StatusConflict,
	queue.CodeQueueFull:   http.StatusTooManyRequests,
	queue.CodeUnavailable: http.StatusServiceUnavailable,
	queue.CodeOverloaded:  http.StatusServiceUnavailable,
	queue.CodeInternal:    http.StatusInternalServerError,
}

// handleError turns whatever a handler returned into an answer.
func (s *Server) handleError(err error, c echo.Context) {
	if c.Response().Committed || c.Request().Context().Err() != nil {
		return // the client has its status, or has left
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
	s.answerError(c, statusOf[coded.Code], text)
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
	body := append(appendString([]byte(`{"error":`), text), '}')
	if err := answer(c, status, body); err != nil {
		s.deps.Log.Debug("an error could not be sent", zap.Error(err))
	}
}

// answer sends a JSON body.
func answer(c echo.Context, status int, body []byte) error {
	c.Response().Header().Set(echo.HeaderContentLength, strconv.Itoa(len(body)))
	return c.Blob(status, echo.MIMEApplicationJSON, body)
}

// formatMillis is how the contract writes most instants.
func formatMillis(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
