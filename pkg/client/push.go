package client

import (
	"bytes"
	"cmp"
	"context"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
)

// Item is a message to push.
type Item struct {
	// Queue is created by the first push to it. Its name has at most 255 bytes.
	Queue string
	// Partition is the partition, within which messages stay in order. "" is Default.
	Partition string
	// Payload is encoded by encoding/json. A json.RawMessage is sent as it is, and must be JSON.
	Payload any
	// TransactionID is stored once per partition. An item without one gets a new UUIDv7. Name it if the same message may be
	// pushed again after the process has ended.
	TransactionID string
	// TraceID is a UUID. "" is that of the context; see WithTraceID.
	TraceID string
	// Delay is how long the message, and those after it in its partition, wait. At most a year.
	Delay time.Duration
	// VisibleAt is the same as an instant. An item has Delay or VisibleAt, not both.
	VisibleAt time.Time
}

// PushStatus says what became of an item.
type PushStatus string

// The statuses of an item.
const (
	// Queued means that the message is stored.
	Queued PushStatus = "queued"
	// Duplicate means that a message with this transaction id is stored already.
	Duplicate PushStatus = "duplicate"
	// Buffered means that push maintenance is on: the message is on the disk of the server, and is stored later.
	Buffered PushStatus = "buffered"
)

// Stored is what became of an item.
type Stored struct {
	Status        PushStatus `json:"status"`
	TransactionID string     `json:"transaction_id"`
	// MessageID is the id of the stored message, also of a duplicate. It is "" if the message is buffered.
	MessageID string `json:"message_id"`
	// PartitionID is the id of the partition if the status is Queued.
	PartitionID string `json:"partition_id"`
	Queue       string `json:"queueName"`
}

// Push stores a message. See PushMany.
func (c *Client) Push(ctx context.Context, item Item) (Stored, error) {
	stored, err := c.PushMany(ctx, []Item{item})
	if err != nil {
		return Stored{}, err
	}
	return stored[0], nil
}

// PushMany stores messages, all or none, and returns what became of each, in their order. The server takes 50,000
// items in 10,000 partitions, and bodies of 16 MiB, unless it is configured otherwise.
//
// It blocks until the messages are stored, until RetryFor has passed, or until ctx ends. After an error that is
// ErrUnavailable, or of ctx, the messages may be stored. To repeat such a push without storing a message twice, name the
// transaction ids. A payload that cannot be encoded is ErrInvalid, and nothing is sent. ErrQueueFull means that a queue has reached its maxSize for longer than RetryFor.
func (c *Client) PushMany(ctx context.Context, items []Item) ([]Stored, error) {
	wired, err := wireItems(ctx, items)
	if err != nil {
		return nil, err
	}
	return c.pushWired(ctx, wired, false)
}

// pushWired pushes encoded items. hasty pushes return ErrQueueFull without a repetition.
func (c *Client) pushWired(ctx context.Context, items []wireItem, hasty bool) ([]Stored, error) {
	made, err := newCall(Request{Method: http.MethodPost, Path: "/api/v1/push", Body: map[string]any{"items": items}})
	if err != nil {
		return nil, err
	}
	made.repeatable, made.hasty = true, hasty
	var stored []Stored
	if err := c.exchange(ctx, made, &stored); err != nil {
		return nil, err
	}
	if len(stored) != len(items) {
		return nil, fmt.Errorf("a push of %d items was answered with %d", len(items), len(stored))
	}
	return stored, nil
}

// wireItem is an Item as the API has it.
type wireItem struct {
	Queue         string         `json:"queue"`
	Partition     string         `json:"partition,omitempty"`
	TransactionID string         `json:"transactionId"`
	TraceID       string         `json:"traceId,omitempty"`
	Payload       jsontext.Value `json:"payload"`
	DelaySeconds  float64        `json:"delaySeconds,omitzero"`
	VisibleAt     time.Time      `json:"visibleAt,omitzero"`
}

// lastYear is the last year that RFC 3339 can express.
const lastYear = 9999

// wireItems encodes items and gives transaction ids to those without.
func wireItems(ctx context.Context, items []Item) ([]wireItem, error) {
	wired := make([]wireItem, len(items))
	traceID := ContextTraceID(ctx)
	for i, item := range items {
		payload, err := encodePayload(item.Payload)
		if err != nil {
			return nil, fmt.Errorf("%w: encoding the payload of item %d for queue %q: %w", ErrInvalid, i, item.Queue, err)
		}
		if item.VisibleAt.Year() > lastYear {
			return nil, fmt.Errorf("%w: VisibleAt of item %d for queue %q is after the year %d", ErrInvalid, i, item.Queue, lastYear)
		}
		id := item.TransactionID
		if id == "" {
			id, err = newTransactionID()
			if err != nil {
				return nil, err
			}
		}
		wired[i] = wireItem{
			Queue: item.Queue, Partition: item.Partition, TransactionID: id, TraceID: cmp.Or(item.TraceID, traceID),
			Payload: payload, DelaySeconds: item.Delay.Seconds(), VisibleAt: item.VisibleAt.UTC(),
		}
	}
	return wired, nil
}

func newTransactionID() (string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("making a transaction id: %w", err)
	}
	return id.String(), nil
}

// encodePayload encodes a payload without changing the characters <, > and &.
func encodePayload(payload any) (jsontext.Value, error) {
	if raw, ok := payload.(stdjson.RawMessage); ok && raw != nil {
		// Invalid JSON would fail the whole request, which may have messages of other callers.
		if value := jsontext.Value(raw); value.IsValid(lenient) {
			return value, nil
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
