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
	"github.com/belfry-mq/belfry/pkg/client/spans"
)

// Item is a message to push.
//
//	client.Item{Queue: "orders", Partition: "customer-7", Payload: order}
//
// Payload is encoded by encoding/json. A json.RawMessage is sent unchanged, and must be JSON. If TransactionID is empty, the
// client sets a new UUIDv7. Set a TransactionID yourself if a later process may push the same message again. If TraceID is empty,
// the client uses the trace id of the context; see WithTraceID. Headers are texts that the consumer gets with the payload.
type Item = api.PushItem

// PushResult is the result of an item of a push.
type PushResult = api.PushResult

// PushStatus says whether the message of an item is stored.
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
// It blocks as long as PushMany, and returns the same errors.
func (c *Client) Push(ctx context.Context, item Item) (PushResult, error) {
	results, err := c.PushMany(ctx, []Item{item})
	if err != nil {
		return PushResult{}, err
	}
	return results[0], nil
}

// PushMany stores all messages or no message. It returns one result for each message, in the same order:
//
//	results, err := c.PushMany(ctx, []client.Item{{Queue: "orders", Payload: first}, {Queue: "orders", Payload: second}})
//
// By default, the server accepts 50,000 items in 10,000 partitions, and bodies of 16 MiB.
//
// PushMany blocks until the messages are stored, until RetryFor has passed, or until ctx ends. If the error is ErrUnavailable or
// ctx has ended, the messages may be stored. Set transaction ids, so that a repeated call stores no message twice. If a payload
// cannot be encoded, the error is ErrInvalid, and nothing is sent. ErrQueueFull means that a queue was full for longer than
// RetryFor.
func (c *Client) PushMany(ctx context.Context, items []Item) ([]PushResult, error) {
	ctx, end := c.spans.Publish(ctx, items)
	encoded, err := encodeItems(ctx, items)
	var results []PushResult
	if err == nil {
		results, err = c.pushEncoded(ctx, encoded, false)
	}
	end(err)
	return results, err
}

// pushEncoded pushes the result of encodeItems. If hasty is true, it returns ErrQueueFull without a repetition.
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
		return nil, fmt.Errorf("the answer to a push of %d items has %d results", len(items), len(results))
	}
	return results, nil
}

// lastYear is the last year that RFC 3339 can express.
const lastYear = 9999

// encodeItems returns copies of the items with encoded payloads, transaction ids and the trace id of ctx.
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
		item.Headers = spans.Headers(ctx, item.Headers)
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
		// Invalid JSON would fail the whole request, which may contain messages of other callers.
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
