package httpapi

import (
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// ack serves POST /api/v1/ack (section 3.1). The answer is an array of one.
func (s *Server) ack(c echo.Context) error {
	body, err := s.readBody(c)
	if err != nil {
		return err
	}
	var item rawAck
	if err := object(body, item.member); err != nil {
		return err
	}
	switch {
	case !item.hasTransaction:
		return queue.Invalidf("transactionId is required")
	case !item.hasPartition:
		return queue.Invalidf("partitionId is required to ensure message uniqueness")
	}
	return s.answerAcks(c, []queue.AckItem{item.AckItem})
}

// ackBatch serves POST /api/v1/ack/batch (section 3.2). The consumer group is
// that of the whole call.
func (s *Server) ackBatch(c echo.Context) error {
	body, err := s.readBody(c)
	if err != nil {
		return err
	}
	items, err := parseAckBatch(body)
	if err != nil {
		return err
	}
	return s.answerAcks(c, items)
}

func parseAckBatch(body []byte) ([]queue.AckItem, error) {
	var items []queue.AckItem
	var isArray bool
	group := queue.NoGroup
	err := object(body, func(name string, value jsontext.Value) error {
		switch name {
		case "consumerGroup":
			group = groupOf(value)
		case "acknowledgments":
			items = nil
			var err error
			isArray, err = elements(value, func(element jsontext.Value) error {
				var item rawAck
				if _, err := fields(element, item.member); err != nil {
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

func groupOf(value jsontext.Value) string {
	if group, ok := text(value); ok && group != "" {
		return group
	}
	return queue.NoGroup
}

// rawAck is one acknowledgment as it is being read.
type rawAck struct {
	queue.AckItem
	hasTransaction, hasPartition bool
}

func (a *rawAck) member(name string, value jsontext.Value) error {
	if a.Group == "" {
		a.Group, a.Status = queue.NoGroup, queue.AckCompleted
	}
	switch name {
	case "transactionId":
		a.TransactionID, a.hasTransaction = text(value)
	case "partitionId":
		a.PartitionID, a.hasPartition = text(value)
	case "leaseId":
		a.LeaseID, _ = text(value)
	case "error":
		a.Error, _ = text(value)
	case "consumerGroup":
		a.Group = groupOf(value)
	case "status":
		a.Status = queue.AckCompleted
		if status, ok := text(value); ok {
			a.Status = queue.ParseAckStatus(status)
		}
	}
	return nil
}

func (s *Server) answerAcks(c echo.Context, items []queue.AckItem) error {
	// What cannot be stored as text cannot have been stored: it names nothing.
	for i := range items {
		items[i].TransactionID = withoutNUL(items[i].TransactionID)
		items[i].Group = withoutNUL(items[i].Group)
		items[i].Error = withoutNUL(items[i].Error)
	}
	results, err := s.deps.Verbs.Ack(c.Request().Context(), items)
	if err != nil {
		return err
	}
	s.deps.Metrics.acknowledged(results)
	out := []byte{'['}
	for i := range results {
		if i > 0 {
			out = append(out, ',')
		}
		out = appendAckResult(out, i, items[i].TransactionID, &results[i])
	}
	return answer(c, http.StatusOK, append(out, ']'))
}

func appendAckResult(b []byte, index int, transactionID string, r *queue.AckResult) []byte {
	orNull := func(b []byte, s string, known bool) []byte {
		if !known {
			return append(b, "null"...)
		}
		return appendString(b, s)
	}
	b = append(b, `{"index":`...)
	b = strconv.AppendInt(b, int64(index), 10)
	b = append(b, `,"transactionId":`...)
	b = appendString(b, transactionID)
	b = append(b, `,"success":`...)
	b = strconv.AppendBool(b, r.Success)
	b = append(b, `,"error":`...)
	b = orNull(b, r.Error, r.Error != "")
	b = append(b, `,"queueName":`...)
	b = orNull(b, r.Queue, r.Queue != "" || r.Resolved)
	b = append(b, `,"partitionName":`...)
	b = orNull(b, r.Partition, r.Partition != "" || r.Resolved)
	b = append(b, `,"leaseReleased":`...)
	if r.Resolved {
		b = strconv.AppendBool(b, r.LeaseReleased)
	} else {
		b = append(b, "null"...)
	}
	b = append(b, `,"dlq":`...)
	b = strconv.AppendBool(b, r.DeadLettered)
	return append(b, '}')
}
