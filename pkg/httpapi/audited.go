package httpapi

import (
	"net/http"

	"github.com/labstack/echo/v4"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// maxRequestID is the most bytes of a request id that a client sends.
const maxRequestID = 64

// audited returns the handler of a route that changes state for an operator. See pkg/access/audit. The row has the request id
// of the answer.
func (s *Server) audited(action string, answer func(*wire.Params) (any, error)) echo.HandlerFunc {
	return wire.Change(func(p *wire.Params) (any, error) { return s.record(action, p, answer) })
}

// auditedStream is audited for a route whose handler writes its answer itself.
func (s *Server) auditedStream(action string, serve func(*wire.Params) error) echo.HandlerFunc {
	return func(c echo.Context) error {
		wire.IgnoreReads(c)
		_, err := s.record(action, &wire.Params{Context: c, Status: http.StatusOK}, func(p *wire.Params) (any, error) { return nil, serve(p) })
		return err
	}
}

// confirmed returns the handler of another route that changes state: see Deps.Confirm.
func (s *Server) confirmed(answer func(*wire.Params) (any, error)) echo.HandlerFunc {
	return wire.Change(func(p *wire.Params) (any, error) {
		value, err := answer(p)
		if err == nil {
			err = s.deps.Confirm(p.Ctx())
		}
		return value, err
	})
}

// record answers a request and makes sure that the audit has its row. It acknowledges nothing that a failover can lose:
// see Deps.Confirm.
func (s *Server) record(action string, p *wire.Params, answer func(*wire.Params) (any, error)) (any, error) {
	entry := audit.New(p.Ctx(), s.deps.Texts, action, p.RealIP(), idOf(p))
	p.SetRequest(p.Request().WithContext(audit.With(p.Ctx(), entry)))
	value, err := answer(p)
	if err == nil {
		err = s.deps.Confirm(p.Ctx())
	}
	result := audit.ResultOf(err)
	if p.Status == http.StatusNotFound {
		result = string(queue.CodeNotFound) // the handler has made the body of the answer
	}
	s.deps.Audit.Finish(p.Ctx(), entry, result)
	s.deps.Events.Audited()
	return value, err
}

// identifyRequest gives each answer its X-Request-Id.
func identifyRequest(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		c.Response().Header().Set(echo.HeaderXRequestID, requestID(c.Request().Header.Get(echo.HeaderXRequestID)))
		return next(c)
	}
}

// idOf returns the request id that identifyRequest gave.
func idOf(c echo.Context) string { return c.Response().Header().Get(echo.HeaderXRequestID) }

// fieldsOf returns the fields that each log line about a request has.
func fieldsOf(c echo.Context) zap.Field {
	return zap.Inline(zapcore.ObjectMarshalerFunc(func(to zapcore.ObjectEncoder) error {
		to.AddString("request_id", idOf(c))
		to.AddString("method", c.Request().Method)
		to.AddString("path", c.Request().URL.Path)
		return nil
	}))
}

// requestID returns the request id that a client sent, if it is short and printable ASCII. Otherwise it
// returns a new one.
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
