package dataplane

import (
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// extendDefault is the extension of a request that names none, and extendMax
// the longest one.
const (
	extendDefault = 60 * time.Second
	extendMax     = 7 * 24 * time.Hour
)

// Extend serves POST /api/v1/lease/:leaseId/extend. The answer for a lease that
// does not exist (404) or has expired (409) has the members of a success.
func (h *Handlers) Extend(c echo.Context) error {
	extension := extendDefault
	err := h.Bodies.ReadObject(c, func(name string, value jsontext.Value) error {
		if name != "seconds" || value.Kind() == 'n' {
			return nil
		}
		n, err := wire.WholeNumber("seconds", value)
		if err != nil {
			return err
		}
		if n < 1 || n > int64(extendMax/time.Second) {
			return queue.Invalidf("seconds is %d: it must be between 1 and %d", n, int64(extendMax/time.Second))
		}
		extension = time.Duration(n) * time.Second
		return nil
	})
	if err != nil {
		return err
	}
	p := wire.Params{Context: c}
	text := p.PathName("leaseId")
	if p.Err != nil {
		return p.Err
	}
	id, err := queue.ParseID(text)
	if err != nil {
		err = &queue.Error{Code: queue.CodeNotFound, Message: "Lease not found"}
	}
	var until time.Time
	if err == nil {
		until, err = h.Verbs.Extend(c.Request().Context(), id, extension)
	}
	switch code := queue.CodeOf(err); code {
	case "":
		return wire.Answer(c, http.StatusOK, appendExtension(text, "", until))
	case queue.CodeNotFound, queue.CodeLeaseGone:
		return wire.Answer(c, wire.StatusOf(code), appendExtension(text, err.Error(), until))
	default:
		return err
	}
}

func appendExtension(leaseID, failure string, until time.Time) []byte {
	b := wire.AppendString(nil, `{"leaseId":`, leaseID)
	if failure != "" {
		b = wire.AppendString(b, `,"success":false,"error":`, failure)
		return append(b, `,"expiresAt":null,"newExpiresAt":null}`...)
	}
	at := wire.FormatMillis(until)
	b = wire.AppendString(b, `,"success":true,"error":null,"expiresAt":`, at)
	b = wire.AppendString(b, `,"newExpiresAt":`, at)
	return append(b, '}')
}
