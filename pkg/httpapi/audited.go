package httpapi

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// audited returns the handler of a route that changes state for an operator. Each request gets a row of the audit with its
// request id; see pkg/access/audit.
func (s *Server) audited(action string, answer func(*wire.Params) (any, error)) echo.HandlerFunc {
	return wire.Change(func(p *wire.Params) (any, error) { return s.record(action, p, answer) })
}

// auditedStream is like audited, for a handler that writes its answer itself.
func (s *Server) auditedStream(action string, serve func(*wire.Params) error) echo.HandlerFunc {
	return wire.Stream(func(p *wire.Params) error {
		_, err := s.record(action, p, func(p *wire.Params) (any, error) { return nil, serve(p) })
		return err
	})
}

// confirmed returns the handler of a route that changes state without a row of the audit. It calls Deps.Confirm before the answer.
func (s *Server) confirmed(answer func(*wire.Params) (any, error)) echo.HandlerFunc {
	return wire.Change(func(p *wire.Params) (any, error) {
		value, err := answer(p)
		if err == nil {
			err = s.deps.Confirm(p.Ctx())
		}
		return value, err
	})
}

// record answers a request and makes sure that the audit has its row. Before the answer it calls Deps.Confirm, so a failover
// cannot lose an answered change.
func (s *Server) record(action string, p *wire.Params, answer func(*wire.Params) (any, error)) (any, error) {
	entry := audit.New(p.Ctx(), s.deps.Texts, action, p.RealIP(), idOf(p))
	p.SetRequest(p.Request().WithContext(audit.With(p.Ctx(), entry)))
	value, err := answer(p)
	if err == nil {
		err = s.deps.Confirm(p.Ctx())
	}
	result := audit.ResultOf(err)
	if p.Status == http.StatusNotFound {
		result = string(queue.CodeNotFound) // the handler returned a body instead of an error
	}
	s.deps.Totals.Expire()
	s.deps.Audit.Finish(p.Ctx(), entry, result)
	s.deps.Events.Audited()
	return value, err
}
