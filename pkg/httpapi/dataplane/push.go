package dataplane

import (
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/identity"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Push serves POST /api/v1/push. The answer has one element for each item.
func (h *Handlers) Push(c echo.Context) error {
	body, err := h.Bodies.Read(c)
	if err != nil {
		return err
	}
	items, err := h.Limits.parsePush(body)
	if err != nil {
		return err
	}
	if err := mayPush(c.Request().Context(), items); err != nil {
		return err
	}
	if len(items) == 0 {
		return wire.Answer(c, http.StatusCreated, []byte("[]"))
	}
	if subject := identity.Subject(c.Request().Context()); subject != "" {
		for i := range items {
			items[i].ProducerSub = subject
		}
	}
	results, err := h.Pusher.Push(c.Request().Context(), items)
	if err != nil {
		return err
	}
	h.Meter.Pushed(items, results)
	out := make([]byte, 0, 256*len(results))
	out = append(out, '[')
	for i := range results {
		if i > 0 {
			out = append(out, ',')
		}
		out = appendPushResult(out, i, &items[i], &results[i])
	}
	return wire.Answer(c, http.StatusCreated, append(out, ']'))
}

// parsePush reads the body of a push and checks all items.
func (l Limits) parsePush(body []byte) ([]queue.PushItem, error) {
	var items []queue.PushItem
	isArray, err := wire.List(body, "items", func() { items = nil }, func(at int, element jsontext.Value) error {
		if err := l.checkItems(at + 1); err != nil {
			return err
		}
		item, err := parseItem("items["+strconv.Itoa(at)+"]", element, false)
		items = append(items, item)
		return err
	})
	if err != nil {
		return nil, err
	}
	if !isArray {
		return nil, queue.Invalidf("items array is required")
	}
	if err := l.checkPartitions(items); err != nil {
		return nil, err
	}
	return items, nil
}

func appendPushResult(b []byte, index int, item *queue.PushItem, r *queue.PushResult) []byte {
	b = wire.AppendInt(b, `{"index":`, index)
	if r.Buffered {
		return appendBuffered(b, item, r)
	}
	status := "queued"
	if r.Duplicate {
		status = "duplicate"
	}
	b = wire.AppendString(b, `,"status":`, status)
	b = wire.AppendString(b, `,"transaction_id":`, r.TransactionID)
	b = wire.AppendID(b, `,"message_id":`, r.MessageID)
	if !r.Duplicate {
		b = wire.AppendID(b, `,"partition_id":`, r.PartitionID)
		b = wire.AppendID(b, `,"trace_id":`, item.TraceID)
	}
	b = wire.AppendString(b, `,"queueName":`, item.Queue)
	return append(b, '}')
}

// appendBuffered appends the rest of a result of the spool, which has no ids of the database.
func appendBuffered(b []byte, item *queue.PushItem, r *queue.PushResult) []byte {
	b = wire.AppendString(b, `,"status":`, "buffered")
	b = wire.AppendString(b, `,"transaction_id":`, r.TransactionID)
	b = wire.AppendString(b, `,"transactionId":`, r.TransactionID)
	b = wire.AppendString(b, `,"queueName":`, item.Queue)
	b = wire.AppendString(b, `,"queue":`, item.Queue)
	b = wire.AppendString(b, `,"partition":`, item.Partition)
	return append(b, '}')
}
