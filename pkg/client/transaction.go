package client

import (
	"context"
	"errors"
	"net/http"

	"github.com/belfry-mq/belfry/pkg/client/api"
)

// Transaction is a set of acknowledgments and pushes that are applied together or not at all.
type Transaction struct {
	Acks   []Ack
	Pushes []Item
	// RequiredLeases must be live, besides the leases of Acks.
	RequiredLeases []string
}

// ErrRefused matches a *RefusedError.
var ErrRefused = errors.New("the transaction was refused")

// RefusedError says why a transaction was not applied: a lease has ended, a transaction id is stored already, or a message
// does not exist. The same transaction would be refused again.
type RefusedError struct {
	// Message is the reason. Reasons has the reason of each operation: first the acks, then the pushes.
	Message string
	Reasons []string
}

func (e *RefusedError) Error() string { return "the transaction was refused: " + e.Message }

// Is reports whether target is ErrRefused.
func (e *RefusedError) Is(target error) bool { return target == ErrRefused }

// Transact applies a transaction:
//
//	err := c.Transact(ctx, client.Transaction{
//		Acks:   []client.Ack{order.Ack(client.Completed, nil)},
//		Pushes: []client.Item{{Queue: "invoices", Payload: invoice}},
//	})
//
// Each ack with a LeaseID needs that lease to be live. If the server does not apply
// the transaction, the error is a *RefusedError, and nothing was changed.
//
// With a push, a transaction is repeated after a lost answer, and applied once. One of acks alone is repeated only if the
// server certainly did nothing. After another error it may have been applied.
func (c *Client) Transact(ctx context.Context, t Transaction) error {
	items, err := encodeItems(ctx, t.Pushes)
	if err != nil {
		return err
	}
	body := api.Transaction{RequiredLeases: t.RequiredLeases}
	for i := range t.Acks {
		body.Operations = append(body.Operations, api.Operation{Type: api.AckOperation, Ack: &t.Acks[i]})
	}
	if len(items) > 0 {
		body.Operations = append(body.Operations, api.Operation{Type: api.PushOperation, Items: items})
	}
	made, err := newCall(Request{Method: http.MethodPost, Path: "/api/v1/transaction", Body: body})
	if err != nil {
		return err
	}
	made.repeatable = len(items) > 0
	var outcome api.TransactionResult
	if err := c.exchange(ctx, made, &outcome); err != nil || outcome.Success {
		return err
	}
	refused := &RefusedError{Message: outcome.Error}
	for _, result := range outcome.Results {
		refused.Reasons = append(refused.Reasons, result.Error)
	}
	return refused
}
