package data

import (
	"cmp"
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// notApplied is the error of each operation that did not cause the failure of its
// transaction.
const notApplied = "Not applied: another part of the transaction failed"

// Transaction serves POST /api/v1/transaction. If the transaction was not applied, the
// answer is a 200 with success false. Clients of Queen MQ expect the failure in this
// form, and do not repeat the request.
func (h *Handlers) Transaction(c echo.Context) error {
	body, err := h.Bodies.Read(c)
	if err != nil {
		return err
	}
	read, err := h.Limits.parseTransaction(body, spellingOf(c))
	if err != nil {
		return err
	}
	if read.unknownType != nil {
		result := queue.TransactionResult{Error: "Unknown operation type: " + wire.Clip(*read.unknownType)}
		return wire.Answer(c, http.StatusOK, appendTransaction(nil, read, &result))
	}
	for i := range read.tx.Operations {
		nameConsumer(c, read.tx.Operations[i].Ack)
	}
	result, err := h.transact(c.Request().Context(), &read.tx)
	if err != nil {
		return err
	}
	if result.Applied {
		h.Meter.Transacted(&read.tx, &result)
	}
	return wire.Answer(c, http.StatusOK, appendTransaction(make([]byte, 0, 256*len(result.Operations)), read, &result))
}

// transact applies a transaction with the grants of the principal of the request.
func (h *Handlers) transact(ctx context.Context, tx *queue.Transaction) (queue.TransactionResult, error) {
	subject := identity.Subject(ctx)
	var acks []*queue.AckItem
	for _, operation := range tx.Operations {
		if operation.Push == nil {
			acks = append(acks, operation.Ack)
			continue
		}
		if err := wire.MayPush(ctx, operation.Push.Queue); err != nil {
			return queue.TransactionResult{}, err
		}
		operation.Push.ProducerSub = subject
	}
	leases, shown, err := h.hideLeases(ctx, tx.RequiredLeases)
	if err == nil {
		err = h.hideAcks(ctx, acks)
	}
	if err != nil {
		return queue.TransactionResult{}, err
	}
	tx.RequiredLeases = leases
	result, err := h.Verbs.Transact(ctx, tx)
	result.Error = shown.Replace(result.Error)
	return result, err
}

// appendTransaction appends the answer. A push that was not applied has no message id.
func appendTransaction(b []byte, read *transactionBody, result *queue.TransactionResult) []byte {
	b = wire.AppendID(b, `{"transactionId":`, queue.NewID())
	b = wire.AppendBool(b, `,"success":`, result.Applied)
	if !result.Applied {
		b = wire.AppendString(b, `,"error":`, result.Error)
	}
	b = append(b, `,"results":[`...)
	for i := range result.Operations {
		if i > 0 {
			b = append(b, ',')
		}
		b = wire.AppendInt(b, `{"index":`, i)
		if op, r := read.tx.Operations[i], &result.Operations[i]; op.Push != nil {
			b = appendPushed(b, op.Push, r, result.Applied)
		} else {
			b = appendAcked(b, op.Ack, r, result.Applied)
		}
		b = append(appendWarnings(b, read.warnings[i]), '}')
	}
	return append(b, "]}"...)
}

func appendPushed(b []byte, item *queue.PushItem, r *queue.OperationResult, applied bool) []byte {
	b = wire.AppendBool(b, `,"type":"push","success":`, applied)
	if !applied {
		b = wire.AppendString(b, `,"transactionId":`, item.TransactionID)
		return wire.AppendString(b, `,"error":`, cmp.Or(r.Error, notApplied))
	}
	b = wire.AppendString(b, `,"transactionId":`, r.Push.TransactionID)
	b = wire.AppendID(b, `,"messageId":`, r.Push.MessageID)
	b = wire.AppendID(b, `,"partitionId":`, r.Push.PartitionID)
	return wire.AppendString(b, `,"queueName":`, item.Queue)
}

func appendAcked(b []byte, item *queue.AckItem, r *queue.OperationResult, applied bool) []byte {
	failure := ""
	if !applied {
		failure = cmp.Or(r.Error, notApplied)
	}
	b = wire.AppendBool(b, `,"type":"ack","success":`, applied)
	b = wire.AppendString(b, `,"transactionId":`, item.TransactionID)
	b = wire.AppendStringOrNull(b, `,"error":`, failure)
	b = wire.AppendBool(b, `,"dlq":`, applied && r.Ack.DeadLettered)
	if applied {
		b = appendExhausted(b, r.Ack)
	}
	return b
}
