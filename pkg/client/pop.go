package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/belfry-mq/belfry/pkg/client/api"
)

// Message is a delivered message. T is the type of its payload. W3CTraceID converts its TraceID to a W3C trace id.
type Message[T any] = api.Message[T]

// Raw is a message whose payload is not decoded. The payload has the bytes that the producer sent.
type Raw = Message[json.RawMessage]

// Decode decodes the payload of a message with encoding/json.
func Decode[T any](raw *Raw) (*Message[T], error) {
	decoded := Message[T]{
		ID: raw.ID, TransactionID: raw.TransactionID, TraceID: raw.TraceID, ProducerSub: raw.ProducerSub,
		CreatedAt: raw.CreatedAt, Queue: raw.Queue, Partition: raw.Partition, PartitionID: raw.PartitionID,
		LeaseID: raw.LeaseID, Group: raw.Group, Attempt: raw.Attempt, Headers: raw.Headers,
	}
	if same, ok := any(&decoded.Data).(*json.RawMessage); ok {
		*same = raw.Data
		return &decoded, nil
	}
	if err := json.Unmarshal(raw.Data, &decoded.Data); err != nil {
		return nil, fmt.Errorf("decoding the payload of message %q: %w", raw.TransactionID, err)
	}
	return &decoded, nil
}

// PopOptions say what a pop receives. Set either Queue, or Namespace, Task or both. Otherwise Pop returns ErrInvalid.
type PopOptions struct {
	Queue string
	// Partition restricts the pop to one partition of Queue. "" means any partition.
	Partition string
	// Namespace and Task select the queues: the pop receives from a queue that has both.
	Namespace, Task string
	// Group is the consumer group. "" means the reader without a group.
	Group string
	// Batch is the maximum number of messages, from 1 to 10,000. 0 means 1.
	Batch int
	// Partitions is the maximum number of partitions, from 1 to 200. 0 means 1.
	Partitions int
	// Wait is how long the server waits for a message, in whole milliseconds, at most ten minutes. With 0 it does not wait.
	Wait time.Duration
	// AutoAck makes the server acknowledge the messages before it answers. If the answer is lost, the group never gets them.
	AutoAck bool
	// SubscriptionMode and SubscriptionFrom say where a new group starts. With SubscriptionMode "new" or SubscriptionFrom "now", it
	// starts after the stored messages. If SubscriptionFrom is an instant, it starts after that instant. Otherwise it starts at
	// the first message. A registered group ignores both fields.
	SubscriptionMode, SubscriptionFrom string
}

// Pop receives messages. Acknowledge them with Ack:
//
//	messages, err := c.Pop(ctx, client.PopOptions{Queue: "orders", Group: "billing", Batch: 10, Wait: 30 * time.Second})
//
// The result is empty if no message came within Wait. Messages of one partition are in order. All messages have the same lease,
// which lasts for the leaseTime of the queue.
//
// Pop blocks until the server answers or ctx ends. If the client does not receive the answer, the server releases the messages.
// With AutoAck, Pop does not repeat a request whose answer was lost.
func (c *Client) Pop(ctx context.Context, o PopOptions) ([]*Raw, error) {
	made, err := o.call()
	if err != nil {
		return nil, err
	}
	return c.pop(ctx, made)
}

// check returns an error that is ErrInvalid if the options do not name a source of messages.
func (o PopOptions) check() error {
	byTask := o.Namespace != "" || o.Task != ""
	switch {
	case o.Queue != "" && byTask:
		return fmt.Errorf("%w: a pop has queue %q, namespace %q and task %q: set either Queue, or Namespace and Task",
			ErrInvalid, o.Queue, o.Namespace, o.Task)
	case o.Queue == "" && o.Partition != "":
		return fmt.Errorf("%w: a pop of partition %q has no queue: set Queue", ErrInvalid, o.Partition)
	case o.Queue == "" && !byTask:
		return fmt.Errorf("%w: a pop has no queue: set Queue, or Namespace, Task or both", ErrInvalid)
	}
	return nil
}

func (o PopOptions) call() (call, error) {
	if err := o.check(); err != nil {
		return call{}, err
	}
	query := url.Values{}
	set := func(name, value string) {
		if value != "" && value != "0" {
			query.Set(name, value)
		}
	}
	path := "/api/v1/pop"
	switch {
	case o.Partition != "":
		path += "/queue/" + url.PathEscape(o.Queue) + "/partition/" + url.PathEscape(o.Partition)
	case o.Queue != "":
		path += "/queue/" + url.PathEscape(o.Queue)
	}
	set("namespace", o.Namespace)
	set("task", o.Task)
	set("consumerGroup", o.Group)
	set("batch", strconv.Itoa(o.Batch))
	set("partitions", strconv.Itoa(o.Partitions))
	set("subscriptionMode", o.SubscriptionMode)
	set("subscriptionFrom", o.SubscriptionFrom)
	if o.Wait > 0 {
		set("wait", "true")
		set("timeout", strconv.FormatInt(max(1, o.Wait.Milliseconds()), 10))
	}
	if o.AutoAck {
		set("autoAck", "true")
	}
	return call{method: http.MethodGet, target: path + "?" + query.Encode(), repeatable: !o.AutoAck, wait: o.Wait}, nil
}

func (c *Client) pop(ctx context.Context, made call) ([]*Raw, error) {
	var delivery api.Delivery[json.RawMessage]
	if err := c.exchange(ctx, made, &delivery); err != nil {
		return nil, err
	}
	for _, message := range delivery.Messages {
		message.Queue = delivery.Queue
	}
	return delivery.Messages, nil
}
