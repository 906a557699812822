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

// Message is a delivered message. T is the type of its payload. W3CTraceID returns its TraceID as a trace id of W3C.
type Message[T any] = api.Message[T]

// Raw is a message whose payload is not decoded. The payload has the bytes that the producer sent.
type Raw = Message[json.RawMessage]

// Decode decodes the payload of a message with encoding/json.
func Decode[T any](raw *Raw) (*Message[T], error) {
	decoded := Message[T]{
		ID: raw.ID, TransactionID: raw.TransactionID, TraceID: raw.TraceID, ProducerSub: raw.ProducerSub,
		CreatedAt: raw.CreatedAt, Queue: raw.Queue, Partition: raw.Partition, PartitionID: raw.PartitionID,
		LeaseID: raw.LeaseID, Group: raw.Group, Attempt: raw.Attempt,
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

// PopOptions say what a pop receives. Either Queue is set, or Namespace, Task or both. Otherwise a pop is ErrInvalid.
type PopOptions struct {
	Queue string
	// Partition restricts the pop to one partition of Queue. "" is any partition.
	Partition string
	// Namespace and Task receive from any queue that has both.
	Namespace, Task string
	// Group is the consumer group. "" is the reader without a group.
	Group string
	// Batch is the most messages, 1 to 10,000. 0 is 1.
	Batch int
	// Partitions is the most partitions, 1 to 200. 0 is 1.
	Partitions int
	// Wait is how long the server waits for a message, in milliseconds and at most ten minutes. 0 does not wait.
	Wait time.Duration
	// AutoAck acknowledges at delivery. A message whose answer is lost is lost for the group.
	AutoAck bool
	// SubscriptionMode and SubscriptionFrom say where a new group starts: with mode "new" or from "now" after the stored messages,
	// from an instant after it, otherwise at the first message. A registered group goes on at its place.
	SubscriptionMode, SubscriptionFrom string
}

// Pop receives messages, which Ack acknowledges:
//
//	messages, err := c.Pop(ctx, client.PopOptions{Queue: "orders", Group: "billing", Batch: 10, Wait: 30 * time.Second})
//
// The result is empty if no message came within Wait. Messages of one partition are in
// order. All have one lease, which lasts for the leaseTime of the queue.
//
// It blocks until the answer, and returns when ctx ends. The server releases messages whose answer was not received. With
// AutoAck, a pop is not repeated after a lost answer.
func (c *Client) Pop(ctx context.Context, o PopOptions) ([]*Raw, error) {
	made, err := o.call()
	if err != nil {
		return nil, err
	}
	return c.pop(ctx, made)
}

// check returns an error that is ErrInvalid if the options do not say from where to receive.
func (o PopOptions) check() error {
	byTask := o.Namespace != "" || o.Task != ""
	switch {
	case o.Queue != "" && byTask:
		return fmt.Errorf("%w: a pop of queue %q has namespace %q and task %q too: set either Queue, or Namespace and Task",
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
