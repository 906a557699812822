package data

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// extendDefault is the extension if the request has no seconds. extendMax is the longest extension.
const (
	extendDefault = 60 * time.Second
	extendMax     = 7 * 24 * time.Hour
)

// Extend serves POST /api/v1/lease/:leaseId/extend. The answers 404 (the lease does not exist)
// and 409 (the lease has expired) have the same members as a success.
func (h *Handlers) Extend(p *wire.Params) (any, error) {
	extension := extendDefault
	err := h.Bodies.ReadObject(p, func(name string, value jsontext.Value) error {
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
		return nil, err
	}
	text := p.PathName("leaseId")
	if p.Err != nil {
		return nil, p.Err
	}
	hidden, _, err := h.hideLeases(p.Ctx(), []string{text})
	if err != nil {
		return nil, err
	}
	id, err := queue.ParseID(hidden[0])
	if err != nil {
		err = &queue.Error{Code: queue.CodeNotFound, Message: "Lease not found"}
	}
	var until time.Time
	if err == nil {
		until, err = h.Verbs.Extend(p.Ctx(), id, extension)
	}
	var failure *string
	if code := queue.CodeOf(err); code == queue.CodeNotFound || code == queue.CodeLeaseGone {
		text := err.Error()
		p.Status, failure, until, err = wire.StatusOf(code), &text, time.Time{}, nil
	}
	ends := wire.OrNull(until)
	return api.Extended{LeaseID: text, Success: failure == nil, Error: failure, ExpiresAt: ends, NewExpiresAt: ends}, err
}
