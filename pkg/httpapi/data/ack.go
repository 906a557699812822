package data

import (
	"cmp"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Ack serves POST /api/v1/ack. The answer is an array of one element.
func (h *Handlers) Ack(c echo.Context) error {
	item := newAckReader("")
	if err := h.Bodies.ReadObject(c, item.member); err != nil {
		return err
	}
	switch {
	case !item.hasTransaction:
		return queue.Invalidf("transactionId is required")
	case !item.hasPartition:
		return queue.Invalidf("partitionId is required to ensure message uniqueness")
	}
	if err := item.checkPause(); err != nil {
		return err
	}
	return h.answerAcks(c, []queue.AckItem{item.AckItem})
}

// AckBatch serves POST /api/v1/ack/batch. All acks of a call have the same consumer group.
func (h *Handlers) AckBatch(c echo.Context) error {
	body, err := h.Bodies.Read(c)
	if err != nil {
		return err
	}
	items, err := h.Limits.parseAckBatch(body)
	if err != nil {
		return err
	}
	return h.answerAcks(c, items)
}

func (l Limits) parseAckBatch(body []byte) ([]queue.AckItem, error) {
	var items []queue.AckItem
	var isArray bool
	group := queue.DefaultGroup
	err := wire.Object(body, func(name string, value jsontext.Value) (err error) {
		switch name {
		case "consumerGroup":
			group = wire.ReplaceNUL(wire.ConsumerGroup(value))
		case "acknowledgments":
			items = nil
			isArray, err = wire.Elements(value, func(at int, element jsontext.Value) error {
				if err := l.checkAcks(at + 1); err != nil {
					return err
				}
				item := newAckReader("")
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
				return item.checkPause()
			})
		}
		return err
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
	// path is the name of the operation of a transaction, for errors. In a transaction, the
	// optional fields must be strings. For another ack, path is empty, and an optional field
	// that is not a string counts as not sent.
	path string
}

func newAckReader(path string) *ackReader {
	return &ackReader{AckItem: queue.AckItem{Group: queue.DefaultGroup, Status: queue.AckCompleted}, path: path}
}

func (a *ackReader) member(name string, value jsontext.Value) error {
	text, isString := wire.Text(value)
	// A name with NUL matches no stored message and no group. ReplaceNUL makes the text
	// acceptable to Postgres, which would otherwise refuse the shared statement of all acks.
	text = wire.ReplaceNUL(text)
	switch name {
	case "transactionId":
		a.TransactionID, a.hasTransaction = text, isString
		return nil
	case "partitionId":
		a.PartitionID, a.hasPartition = text, isString
		return nil
	case "leaseId":
		a.LeaseID = text
	case "error":
		a.Error = text
	case "consumerGroup":
		a.Group = cmp.Or(text, queue.DefaultGroup)
	case "status":
		a.Status = queue.AckCompleted
		if isString {
			a.Status = queue.ParseAckStatus(text)
		}
	case "retryAfter":
		if value.Kind() == 'n' {
			return nil
		}
		pause, err := wire.Delay(a.field(name), value)
		a.RetryAfter = &pause
		return err
	default:
		return nil
	}
	if a.path != "" && !isString && value.Kind() != 'n' {
		return queue.Invalidf("%s.%s must be a string", a.path, name)
	}
	return nil
}

func (a *ackReader) field(name string) string {
	if a.path == "" {
		return name
	}
	return a.path + "." + name
}

// checkPause returns an error if retryAfter would have no effect.
func (a *ackReader) checkPause() error {
	if a.RetryAfter != nil && a.Status != queue.AckFailed && a.Status != queue.AckRetry {
		return queue.Invalidf("%s delays the next delivery: send it with the status failed or retry", a.field("retryAfter"))
	}
	return nil
}

// nameConsumer sets the consumer of the acks that are not completed. The database stores it with the failed attempt.
func nameConsumer(c echo.Context, acks ...*queue.AckItem) {
	consumer := ""
	for _, ack := range acks {
		if ack == nil || ack.Status == queue.AckCompleted {
			continue
		}
		if consumer == "" {
			consumer = wire.Caller(c)
		}
		ack.Consumer = consumer
	}
}

func (h *Handlers) answerAcks(c echo.Context, items []queue.AckItem) error {
	pointers := make([]*queue.AckItem, len(items))
	for i := range items {
		pointers[i] = &items[i]
	}
	nameConsumer(c, pointers...)
	if err := h.hideAcks(c.Request().Context(), pointers); err != nil {
		return err
	}
	results, err := h.Verbs.Ack(c.Request().Context(), items)
	if err != nil {
		return err
	}
	h.Meter.Acknowledged(items, results)
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
	return append(appendExhausted(b, r), '}')
}

// appendExhausted appends the member exhausted, if it applies.
func appendExhausted(b []byte, r *queue.AckResult) []byte {
	if r.Exhausted != "" {
		b = wire.AppendString(b, `,"exhausted":`, string(r.Exhausted))
	}
	return b
}
