package client

import (
	"bytes"
	"cmp"
	"context"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/belfry-mq/belfry/pkg/client/api"
)

// Item is a message to push.
//
//	client.Item{Queue: "orders", Partition: "customer-7", Payload: order}
//
// Payload is encoded by encoding/json. A json.RawMessage is sent as it is, and must be JSON. An item without a TransactionID gets
// a new UUIDv7. Name it if the same message may be pushed again after the process has ended. An empty TraceID is that of the
// context; see WithTraceID.
type Item = api.PushItem

// PushResult is what became of an item.
type PushResult = api.PushResult

// PushStatus says what became of an item.
type PushStatus = api.PushStatus

// The statuses of an item.
const (
	Queued    = api.Queued
	Duplicate = api.Duplicate
	Buffered  = api.Buffered
)

// Push stores a message:
//
//	stored, err := c.Push(ctx, client.Item{Queue: "orders", Partition: "customer-7", Payload: order})
//
// It blocks and fails as PushMany does.
func (c *Client) Push(ctx context.Context, item Item) (PushResult, error) {
	results, err := c.PushMany(ctx, []Item{item})
	if err != nil {
		return PushResult{}, err
	}
	return results[0], nil
}

// PushMany stores messages, all or none, and returns what became of each, in their order:
//
//	results, err := c.PushMany(ctx, []client.Item{{Queue: "orders", Payload: first}, {Queue: "orders", Payload: second}})
//
// The server takes 50,000
// items in 10,000 partitions, and bodies of 16 MiB, unless it is configured otherwise.
//
// It blocks until the messages are stored, until RetryFor has passed, or until ctx ends. After an error that is
// ErrUnavailable, or of ctx, the messages may be stored. To repeat such a push without storing a message twice, name the
// transaction ids. A payload that cannot be encoded is ErrInvalid, and nothing is sent. ErrQueueFull means that a queue has reached its maxSize for longer than RetryFor.
func (c *Client) PushMany(ctx context.Context, items []Item) ([]PushResult, error) {
	encoded, err := encodeItems(ctx, items)
	if err != nil {
		return nil, err
	}
	return c.pushEncoded(ctx, encoded, false)
}

// pushEncoded pushes the result of encodeItems. hasty pushes return ErrQueueFull without a repetition.
func (c *Client) pushEncoded(ctx context.Context, items []Item, hasty bool) ([]PushResult, error) {
	made, err := newCall(Request{Method: http.MethodPost, Path: "/api/v1/push", Body: api.Push{Items: items}})
	if err != nil {
		return nil, err
	}
	made.repeatable, made.hasty = true, hasty
	var results []PushResult
	if err := c.exchange(ctx, made, &results); err != nil {
		return nil, err
	}
	if len(results) != len(items) {
		return nil, fmt.Errorf("a push of %d items was answered with %d", len(items), len(results))
	}
	return results, nil
}

// lastYear is the last year that RFC 3339 can express.
const lastYear = 9999

// encodeItems returns the items with payloads that are json.RawMessages, and with transaction ids.
func encodeItems(ctx context.Context, items []Item) ([]Item, error) {
	encoded := slices.Clone(items)
	traceID := ContextTraceID(ctx)
	for i := range encoded {
		item := &encoded[i]
		payload, err := encodePayload(item.Payload)
		if err != nil {
			return nil, fmt.Errorf("%w: encoding the payload of item %d for queue %q: %w", ErrInvalid, i, item.Queue, err)
		}
		if item.VisibleAt.Year() > lastYear {
			return nil, fmt.Errorf("%w: VisibleAt of item %d for queue %q is after the year %d", ErrInvalid, i, item.Queue, lastYear)
		}
		if item.TransactionID == "" {
			if item.TransactionID, err = newTransactionID(); err != nil {
				return nil, err
			}
		}
		item.Payload, item.TraceID, item.VisibleAt = payload, cmp.Or(item.TraceID, traceID), item.VisibleAt.UTC()
	}
	return encoded, nil
}

func newTransactionID() (string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("making a transaction id: %w", err)
	}
	return id.String(), nil
}

// encodePayload encodes a payload without changing the characters <, > and &.
func encodePayload(payload any) (stdjson.RawMessage, error) {
	if raw, ok := payload.(stdjson.RawMessage); ok && raw != nil {
		// Invalid JSON would fail the whole request, which may have messages of other callers.
		if jsontext.Value(raw).IsValid(lenient) {
			return raw, nil
		}
		return nil, errors.New("the json.RawMessage is not JSON")
	}
	var buffer bytes.Buffer
	encoder := stdjson.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(payload); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(buffer.Bytes()), nil
}
