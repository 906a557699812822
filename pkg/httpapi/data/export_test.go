package data

import (
	"context"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/httpapi/sent"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Internals that the tests in package data_test call.
const (
	MaxBatch      = maxBatch
	MaxPartitions = maxPartitions
	MaxWait       = maxWait
)

// defaultLimits allow more operations than a transaction may have, so the limit of a transaction is reached first.
var defaultLimits = Limits{Items: queue.MaxOperations + 1, Partitions: 10_000, Acks: queue.MaxOperations + 1}

var ParseAckBatch = defaultLimits.parseAckBatch

// ParsePush reads the body of a push without the parameter strict.
func ParsePush(body []byte) ([]queue.PushItem, error) {
	return defaultLimits.parsePush(body, &spelling{})
}

// ParseTransaction returns the transaction of a body, and the first unknown
// operation type.
func ParseTransaction(body []byte) (queue.Transaction, *string, error) {
	read, err := defaultLimits.parseTransaction(body, spelling{})
	if err != nil {
		return queue.Transaction{}, nil, err
	}
	return read.tx, read.unknownType, nil
}

// PopRequest reads the parameters of a pop.
func (h *Handlers) PopRequest(c echo.Context) (*queue.PopRequest, error) {
	p := &wire.Params{Context: c}
	req := h.popRequest(p)
	if p.Err != nil {
		return nil, p.Err
	}
	return req, nil
}

// FinishBeforeAKeepAlive finishes a stream and then calls keepAlive, as a timer does that fired during finish.
func FinishBeforeAKeepAlive() error {
	s := &queueStream{ctx: context.Background(), sent: (&sent.Messages{}).Stream()}
	err := s.finish(streamEnd(wire.EndShutdown))
	s.keepAlive()
	return err
}
