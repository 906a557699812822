package data

import (
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Push serves POST /api/v1/push. The answer has one element for each item.
func (h *Handlers) Push(c echo.Context) error {
	body, err := h.Bodies.Read(c)
	if err != nil {
		return err
	}
	read := spellingOf(c)
	items, err := h.Limits.parsePush(body, &read)
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
		out = appendPushResult(out, i, &items[i], &results[i], read.warnings[i])
	}
	return wire.Answer(c, http.StatusCreated, append(out, ']'))
}

// parsePush reads the body of a push and checks its items.
func (l Limits) parsePush(body []byte, read *spelling) (items []queue.PushItem, err error) {
	isArray, err := wire.List(body, "items", func() { items, read.warnings = nil, nil }, func(at int, element jsontext.Value) error {
		if err := l.checkItems(at + 1); err != nil {
			return err
		}
		item, err := read.item(at, "items["+strconv.Itoa(at)+"]", element, inPush)
		items = append(items, item)
		return err
	})
	if err == nil && !isArray {
		err = queue.Invalidf("items array is required")
	}
	if err == nil {
		err = l.checkPartitions(items)
	}
	if err != nil {
		return nil, err
	}
	return items, nil
}

func appendPushResult(b []byte, index int, item *queue.PushItem, r *queue.PushResult, warnings []string) []byte {
	b = wire.AppendInt(b, `{"index":`, index)
	if r.Buffered {
		b = appendBuffered(b, item, r)
	} else {
		b = appendStored(b, item, r)
	}
	return append(appendWarnings(b, warnings), '}')
}

// appendStored appends the remaining members of the result of a stored item.
func appendStored(b []byte, item *queue.PushItem, r *queue.PushResult) []byte {
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
	return wire.AppendString(b, `,"queueName":`, item.Queue)
}

// appendBuffered appends the remaining members of the result of an item in the spool. It has no message id.
func appendBuffered(b []byte, item *queue.PushItem, r *queue.PushResult) []byte {
	b = wire.AppendString(b, `,"status":`, "buffered")
	b = wire.AppendString(b, `,"transaction_id":`, r.TransactionID)
	b = wire.AppendString(b, `,"transactionId":`, r.TransactionID)
	b = wire.AppendString(b, `,"queueName":`, item.Queue)
	b = wire.AppendString(b, `,"queue":`, item.Queue)
	return wire.AppendString(b, `,"partition":`, item.Partition)
}
