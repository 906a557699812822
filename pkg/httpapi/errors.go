package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// handleError turns an error of a handler into an answer. It counts and logs the error even if the
// client has disconnected, because clients often give up before the database work of a request fails.
func (s *Server) handleError(err error, c echo.Context) {
	if c.Response().Committed {
		return
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
	// After the read deadline of a body, net/http ends the context of the request, although the client is still connected.
	disconnected := c.Request().Context().Err() != nil && coded.Code != queue.CodeTooSlow && !errors.Is(err, wire.ErrLostPlace)
	if disconnected && errors.Is(err, context.Canceled) {
		return // the request failed only because the client disconnected
	}
	text := s.report(c, coded, err)
	if disconnected {
		return
	}
	if coded.Code == queue.CodeUnauthenticated {
		c.Response().Header().Set(echo.HeaderWWWAuthenticate, "Bearer")
	}
	if coded.RetryAfter > 0 {
		c.Response().Header().Set("Retry-After", strconv.Itoa(wire.RetryAfter(coded)))
	}
	s.answerError(c, wire.StatusOf(coded.Code), text)
}

// reportStream is like report, for an error that ends a stream.
func (s *Server) reportStream(c echo.Context, err error) string {
	var coded *queue.Error
	if !errors.As(err, &coded) {
		coded = &queue.Error{Code: queue.CodeInternal, Err: err}
	}
	return s.report(c, coded, err)
}

// report counts and logs an error, and returns the text for the client.
func (s *Server) report(c echo.Context, coded *queue.Error, err error) string {
	s.start.Metrics.errors.WithLabelValues(string(coded.Code)).Inc()
	switch coded.Code {
	case queue.CodeInternal:
		id := queue.NewID().String()
		s.start.Log.Error("a request failed", zap.String("error_id", id), fieldsOf(c), zap.Error(err))
		return "internal error; the server's log has the details under error_id " + id
	case queue.CodeUndeliverable:
		s.start.Log.Error("a message cannot be delivered", fieldsOf(c), zap.Error(err))
	case queue.CodeUnavailable:
		s.start.Metrics.counts.DatabaseFailed()
		s.start.Log.Warn("the database is not available", fieldsOf(c), zap.Error(err))
	default:
	}
	return coded.Message
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
		s.start.Log.Debug("an error answer could not be sent", fieldsOf(c), zap.Error(err))
	}
}
