package dataplane

import (
	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Internals that the tests in package dataplane_test call.
const (
	MaxBatch      = maxBatch
	MaxPartitions = maxPartitions
	MaxWait       = maxWait
)

var (
	ParsePush     = parsePush
	ParseAckBatch = parseAckBatch
)

// ParseTransaction returns the transaction of a body, and the first unknown
// operation type.
func ParseTransaction(body []byte) (queue.Transaction, *string, error) {
	read, err := parseTransaction(body)
	if err != nil {
		return queue.Transaction{}, nil, err
	}
	return read.tx, read.unknownType, nil
}

// PopRequest reads the query of a pop.
func (h *Handlers) PopRequest(c echo.Context) (*queue.PopRequest, error) {
	p := &wire.Params{Context: c}
	req := h.popRequest(p)
	if p.Err != nil {
		return nil, p.Err
	}
	return req, nil
}
