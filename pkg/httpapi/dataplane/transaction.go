package dataplane

import (
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// notApplied is the error of an operation that did not cause the failure of its
// transaction.
const notApplied = "Not applied: another part of the transaction failed"

// Transaction serves POST /api/v1/transaction. The answer to a transaction that
// was not applied is a 200 with success false. Clients of Queen MQ read the
// failure there, and they do not repeat such a request by themselves.
func (h *Handlers) Transaction(c echo.Context) error {
	body, err := h.Bodies.Read(c)
	if err != nil {
		return err
	}
	read, err := parseTransaction(body)
	if err != nil {
		return err
	}
	if read.unknownType != nil {
		result := queue.TransactionResult{Error: "Unknown operation type: " + wire.Clip(*read.unknownType)}
		return wire.Answer(c, http.StatusOK, appendTransaction(nil, &queue.Transaction{}, &result))
	}
	result, err := h.Verbs.Transact(c.Request().Context(), &read.tx)
	if err != nil {
		return err
	}
	if result.Applied {
		h.countTransaction(&result)
	}
	return wire.Answer(c, http.StatusOK, appendTransaction(make([]byte, 0, 256*len(result.Operations)), &read.tx, &result))
}

func (h *Handlers) countTransaction(result *queue.TransactionResult) {
	var pushed int
	var acked []queue.AckResult
	for _, op := range result.Operations {
		if op.Push != nil {
			pushed++
		} else {
			acked = append(acked, *op.Ack)
		}
	}
	h.Meter.PushedInTransaction(pushed)
	h.Meter.Acknowledged(acked)
}

// appendTransaction writes the answer. A push that was not applied has no
// message id.
func appendTransaction(b []byte, tx *queue.Transaction, result *queue.TransactionResult) []byte {
	b = append(b, `{"transactionId":`...)
	b = wire.AppendID(b, queue.NewID())
	b = append(b, `,"success":`...)
	b = strconv.AppendBool(b, result.Applied)
	if !result.Applied {
		b = append(b, `,"error":`...)
		b = wire.AppendString(b, result.Error)
	}
	b = append(b, `,"results":[`...)
	for i := range result.Operations {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendOperation(b, i, tx.Operations[i], &result.Operations[i], result.Applied)
	}
	return append(b, "]}"...)
}

func appendOperation(b []byte, index int, op queue.Operation, r *queue.OperationResult, applied bool) []byte {
	b = append(b, `{"index":`...)
	b = strconv.AppendInt(b, int64(index), 10)
	if op.Push != nil {
		b = append(b, `,"type":"push","success":`...)
	} else {
		b = append(b, `,"type":"ack","success":`...)
	}
	b = strconv.AppendBool(b, applied)
	b = append(b, `,"transactionId":`...)
	switch {
	case op.Push == nil:
		b = wire.AppendString(b, op.Ack.TransactionID)
	case applied:
		b = wire.AppendString(b, r.Push.TransactionID)
	default:
		b = wire.AppendString(b, op.Push.TransactionID)
	}
	switch {
	case !applied && r.Error != "":
		b = append(b, `,"error":`...)
		b = wire.AppendString(b, r.Error)
	case !applied:
		b = append(b, `,"error":"`+notApplied+`"`...)
	case op.Push == nil:
		b = append(b, `,"error":null`...)
	}
	switch {
	case op.Push == nil:
		b = append(b, `,"dlq":`...)
		b = strconv.AppendBool(b, applied && r.Ack.DeadLettered)
	case applied:
		b = append(b, `,"messageId":`...)
		b = wire.AppendID(b, r.Push.MessageID)
		b = append(b, `,"partitionId":`...)
		b = wire.AppendID(b, r.Push.PartitionID)
		b = append(b, `,"queueName":`...)
		b = wire.AppendString(b, op.Push.Queue)
	}
	return append(b, '}')
}
