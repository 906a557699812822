package client

import (
	"context"
	"errors"
	"net/http"

	"github.com/belfry-mq/belfry/pkg/client/api"
)

// Transaction is a set of acknowledgments and pushes. The server applies all of them or none.
type Transaction struct {
	Acks   []Ack
	Pushes []Item
	// RequiredLeases are additional leases that must be live. The leases of Acks must be live in any case.
	RequiredLeases []string
}

// ErrRefused matches a *RefusedError.
var ErrRefused = errors.New("the transaction was refused")

// RefusedError says why the server did not apply a transaction: a lease has ended, a message with the same transaction id is
// already stored, or a message does not exist. The server would refuse the same transaction again.
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
// The lease of each ack with a LeaseID must be live. If the server refuses the transaction, the error is a *RefusedError, and
// nothing was changed.
//
// If an answer is lost, Transact repeats a transaction that has a push, and the server applies it once. Transact repeats a
// transaction without a push only if the server certainly did not apply it. After any error but a *RefusedError, the server may
// have applied the transaction.
func (c *Client) Transact(ctx context.Context, t Transaction) error {
	items, err := encodeItems(ctx, t.Pushes) // the span of ctx creates the messages
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
