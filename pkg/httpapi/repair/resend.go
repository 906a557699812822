package repair

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/engine/deadletter"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Messages reads and moves single messages.
type Messages interface {
	Message(ctx context.Context, partition queue.ID, transactionID string) (deadletter.Message, error)
	Attempts(ctx context.Context, partition queue.ID, transactionID string, group *string) ([]deadletter.Attempt, error)
	Resent(ctx context.Context, partition queue.ID, transactionID string) ([]deadletter.Resent, error)
	Reschedule(ctx context.Context, partition queue.ID, transactionID string, to deadletter.Instant) (deadletter.Rescheduled, error)
}

// Transactor applies operations in one database transaction.
type Transactor interface {
	Transact(ctx context.Context, tx *queue.Transaction) (queue.TransactionResult, error)
}

// Meter counts applied transactions.
type Meter interface {
	Transacted(tx *queue.Transaction, result *queue.TransactionResult)
}

// Handlers has one method for each route.
type Handlers struct {
	Messages   Messages
	Transactor Transactor
	Owners     wire.Owners
	Meter      Meter
	Bodies     wire.BodyReader
}

// Attempts serves GET /api/v1/messages/:partitionId/:transactionId/attempts.
func (h *Handlers) Attempts(p *wire.Params) (any, error) {
	ref, err := wire.ReadMessagePath(p)
	if err != nil {
		return nil, err
	}
	group := p.Name("consumerGroup")
	if p.Err != nil {
		return nil, p.Err
	}
	if err := wire.FindPartition(p.Ctx(), h.Owners, ref.Partition, (*identity.Grants).MayRead); err != nil {
		return nil, err
	}
	attempts, err := h.Messages.Attempts(p.Ctx(), ref.Partition, ref.TransactionID, group)
	if err != nil {
		return nil, err
	}
	resent, err := h.Messages.Resent(p.Ctx(), ref.Partition, ref.TransactionID)
	return api.MessageAttempts{
		Attempts: wire.Each(attempts, func(a *deadletter.Attempt) api.FailedAttempt {
			return api.FailedAttempt{
				ConsumerGroup: a.Group, Number: a.Number, DeliveredAt: &a.DeliveredAt, FailedAt: a.FailedAt, Result: a.Result,
				Error: wire.OrNull(a.Error), Consumer: wire.OrNull(a.Consumer), Instance: wire.OrNull(a.Instance),
			}
		}),
		Resent: wire.Each(resent, func(r *deadletter.Resent) api.Resent {
			return api.Resent{
				ID: r.ID.String(), Queue: r.Queue, Partition: r.Partition, PartitionID: wire.IDOrNull(r.PartitionID), TransactionID: r.TransactionID,
				SentAt: r.SentAt, SentBy: wire.OrNull(r.Sender),
			}
		}),
	}, err
}

// Resend serves POST /api/v1/messages/:partitionId/:transactionId/resend.
func (h *Handlers) Resend(p *wire.Params) (any, error) {
	ref, err := wire.ReadMessagePath(p)
	if err != nil {
		return nil, err
	}
	body, err := h.readResend(p)
	if err != nil {
		return nil, err
	}
	if err := wire.FindPartition(p.Ctx(), h.Owners, ref.Partition, (*identity.Grants).MayRead); err != nil {
		return nil, err
	}
	old, err := h.Messages.Message(p.Ctx(), ref.Partition, ref.TransactionID)
	if err != nil {
		return nil, err
	}
	item, err := itemOf(&old, &body)
	if err != nil {
		return nil, err
	}
	if err := mayResend(p.Ctx(), &old, &body, item.Queue); err != nil {
		return nil, err
	}
	item.ProducerSub = identity.Subject(p.Ctx())
	audit.Begin(p.Ctx(), audit.Target{Queue: old.Queue, Partition: old.Partition, TransactionID: ref.TransactionID, Group: orEmpty(body.ConsumerGroup)}, audit.Parameters{
		"toQueue": item.Queue, "toPartition": item.Partition, "newTransactionId": item.TransactionID, "changed": body.Payload != nil, "remove": body.Remove,
	})
	tx := queue.Transaction{
		Operations: []queue.Operation{{Push: &item}},
		Resend: &queue.Resend{
			Partition: ref.Partition, TransactionID: ref.TransactionID, Sender: senderOf(p), Remove: body.Remove, Group: body.ConsumerGroup,
		},
	}
	return h.send(p, &tx, &item)
}

// send pushes the new message, and answers.
func (h *Handlers) send(p *wire.Params, tx *queue.Transaction, item *queue.PushItem) (any, error) {
	done, err := h.Transactor.Transact(p.Ctx(), tx)
	if err != nil {
		return nil, err
	}
	if !done.Applied {
		return nil, queue.Invalidf("the message was not sent: %s. The partition has another message with this transactionId: choose another one", done.Error)
	}
	h.Meter.Transacted(tx, &done)
	made := done.Operations[0].Push
	return api.ResentMessage{
		Success: true, ID: made.MessageID.String(), Queue: item.Queue, Partition: item.Partition, PartitionID: made.PartitionID.String(),
		TransactionID: made.TransactionID, Removed: done.Removed,
	}, nil
}

// readResend reads the body. Without a body, the message is sent again unchanged.
func (h *Handlers) readResend(p *wire.Params) (body api.Resend, err error) {
	err = h.Bodies.ReadOptionalObject(p, func(name string, value jsontext.Value) error {
		switch name {
		case "payload":
			body.Payload = json.RawMessage(value.Clone())
			return nil
		case "headers":
			headers, err := queue.ParseHeaders(name, value)
			if body.Headers = headers.Map(); body.Headers == nil {
				body.Headers = map[string]string{}
			}
			return err
		case "remove":
			var err error
			body.Remove, err = wire.Bool(name, value)
			return err
		case "queue", "partition", "consumerGroup", "transactionId":
			return readText(name, value, map[string]**string{
				"queue": &body.Queue, "partition": &body.Partition, "consumerGroup": &body.ConsumerGroup, "transactionId": &body.TransactionID,
			}[name])
		}
		return queue.Invalidf("the member %s is not known: use queue, partition, payload, transactionId, remove and consumerGroup", wire.Clip(fmt.Sprintf("%q", name)))
	})
	return body, err
}

// readText reads a name or a transaction id. null counts as absent.
func readText(name string, value jsontext.Value, into **string) error {
	if value.Kind() == 'n' {
		return nil
	}
	text, ok := wire.Text(value)
	if !ok {
		return queue.Invalidf("%s must be a string, not %s", name, wire.Clip(string(value)))
	}
	*into = &text
	if name == "transactionId" {
		n := utf8.RuneCountInString(text)
		switch {
		case n == 0 || n > queue.MaxTransactionIDRunes:
			return queue.Invalidf("transactionId is %d characters long: 1 to %d are allowed", n, queue.MaxTransactionIDRunes)
		case strings.ContainsRune(text, 0):
			return queue.Invalidf("transactionId contains a NUL character: remove it")
		}
		return nil
	}
	return wire.CheckName(name, text)
}

// itemOf returns the new message.
func itemOf(old *deadletter.Message, body *api.Resend) (queue.PushItem, error) {
	item := queue.PushItem{
		Queue: old.Queue, Partition: old.Partition, Payload: old.Payload, TraceID: old.TraceID, Headers: old.Headers,
		TransactionID: queue.NewID().String(),
	}
	if body.Headers != nil {
		item.Headers = queue.NewHeaders(body.Headers)
	}
	if body.Queue != nil {
		item.Queue = *body.Queue
	}
	if body.Partition != nil {
		item.Partition = *body.Partition
	}
	if body.TransactionID != nil {
		item.TransactionID = *body.TransactionID
	}
	if body.Payload != nil {
		item.Payload = body.Payload
	} else if old.PayloadError != "" {
		return item, queue.Invalidf("the payload of the message cannot be read: %s. Send a payload", old.PayloadError)
	}
	return item, nil
}

// mayResend checks the rights: to push to the new queue, and with remove to delete the dead letters.
func mayResend(ctx context.Context, old *deadletter.Message, body *api.Resend, target string) error {
	if err := wire.MayPush(ctx, target); err != nil {
		return err
	}
	switch {
	case !body.Remove && body.ConsumerGroup != nil:
		return queue.Invalidf("consumerGroup names the dead letter to delete: send it with remove")
	case !body.Remove:
		return nil
	case body.ConsumerGroup != nil:
		return wire.MayConsume(ctx, old.Queue, *body.ConsumerGroup)
	}
	return wire.MayAdminister(ctx, old.Queue)
}

// senderOf returns the subject of the caller, or the address.
func senderOf(p *wire.Params) string {
	if subject := identity.Subject(p.Ctx()); subject != "" {
		return subject
	}
	return p.RealIP()
}

func orEmpty(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}
