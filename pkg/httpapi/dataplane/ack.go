package dataplane

import (
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Ack serves POST /api/v1/ack. The answer is an array of one element.
func (h *Handlers) Ack(c echo.Context) error {
	var item ackReader
	if err := h.Bodies.ReadObject(c, item.member); err != nil {
		return err
	}
	switch {
	case !item.hasTransaction:
		return queue.Invalidf("transactionId is required")
	case !item.hasPartition:
		return queue.Invalidf("partitionId is required to ensure message uniqueness")
	}
	return h.answerAcks(c, []queue.AckItem{item.AckItem})
}

// AckBatch serves POST /api/v1/ack/batch. One consumer group is named for the
// whole call.
func (h *Handlers) AckBatch(c echo.Context) error {
	body, err := h.Bodies.Read(c)
	if err != nil {
		return err
	}
	items, err := parseAckBatch(body)
	if err != nil {
		return err
	}
	return h.answerAcks(c, items)
}

func parseAckBatch(body []byte) ([]queue.AckItem, error) {
	var items []queue.AckItem
	var isArray bool
	group := queue.NoGroup
	err := wire.Object(body, func(name string, value jsontext.Value) error {
		switch name {
		case "consumerGroup":
			group = wire.ConsumerGroup(value)
		case "acknowledgments":
			items = nil
			var err error
			isArray, err = wire.Elements(value, func(element jsontext.Value) error {
				var item ackReader
				if _, err := wire.Members(element, item.member); err != nil {
					return err
				}
				if !item.hasTransaction {
					return queue.Invalidf("Each acknowledgment must have a valid transactionId string")
				}
				if !item.hasPartition {
					return queue.Invalidf("Each acknowledgment must have a valid partitionId string to ensure message uniqueness")
				}
				items = append(items, item.AckItem)
				return nil
			})
			return err
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if !isArray {
		return nil, queue.Invalidf("acknowledgments array is required")
	}
	for i := range items {
		items[i].Group = group
	}
	return items, nil
}

// ackReader reads one acknowledgment.
type ackReader struct {
	queue.AckItem
	hasTransaction, hasPartition bool
}

func (a *ackReader) member(name string, value jsontext.Value) error {
	if a.Group == "" {
		a.Group, a.Status = queue.NoGroup, queue.AckCompleted
	}
	switch name {
	case "transactionId":
		a.TransactionID, a.hasTransaction = wire.Text(value)
	case "partitionId":
		a.PartitionID, a.hasPartition = wire.Text(value)
	case "leaseId":
		a.LeaseID, _ = wire.Text(value)
	case "error":
		a.Error, _ = wire.Text(value)
	case "consumerGroup":
		a.Group = wire.ConsumerGroup(value)
	case "status":
		a.Status = queue.AckCompleted
		if status, ok := wire.Text(value); ok {
			a.Status = queue.ParseAckStatus(status)
		}
	}
	return nil
}

func (h *Handlers) answerAcks(c echo.Context, items []queue.AckItem) error {
	// No stored message or group has a NUL in its name, so such a text matches
	// nothing. Postgres would refuse it for all acks of a shared statement.
	for i := range items {
		items[i].TransactionID = wire.ReplaceNUL(items[i].TransactionID)
		items[i].Group = wire.ReplaceNUL(items[i].Group)
		items[i].Error = wire.ReplaceNUL(items[i].Error)
	}
	results, err := h.Verbs.Ack(c.Request().Context(), items)
	if err != nil {
		return err
	}
	h.Meter.Acknowledged(results)
	out := []byte{'['}
	for i := range results {
		if i > 0 {
			out = append(out, ',')
		}
		out = appendAckResult(out, i, items[i].TransactionID, &results[i])
	}
	return wire.Answer(c, http.StatusOK, append(out, ']'))
}

func appendAckResult(b []byte, index int, transactionID string, r *queue.AckResult) []byte {
	appendName := wire.AppendStringOrNull
	if r.Resolved { // the names are known, even when they are empty
		appendName = wire.AppendString
	}
	b = wire.AppendInt(b, `{"index":`, index)
	b = wire.AppendString(b, `,"transactionId":`, transactionID)
	b = wire.AppendBool(b, `,"success":`, r.Success)
	b = wire.AppendStringOrNull(b, `,"error":`, r.Error)
	b = appendName(b, `,"queueName":`, r.Queue)
	b = appendName(b, `,"partitionName":`, r.Partition)
	b = append(b, `,"leaseReleased":`...)
	if r.Resolved {
		b = strconv.AppendBool(b, r.LeaseReleased)
	} else {
		b = append(b, "null"...)
	}
	b = wire.AppendBool(b, `,"dlq":`, r.DeadLettered)
	return append(b, '}')
}
