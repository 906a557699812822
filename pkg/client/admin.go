package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/belfry-mq/belfry/pkg/client/api"
)

// Configuration is the name of a queue, its tags and its options, for Configure. docs/http/queues.md lists the options.
type Configuration = api.Configure

// Options are the options of a queue, for Configure. Use new to set an option: client.Options{LeaseTime: new(int64(60))}.
type Options = api.SetOptions

// Configured has the options in force of a queue.
type Configured = api.Configured

// Configure creates a queue, or replaces its options, namespace and task. It returns the values in force:
//
//	inForce, err := c.Configure(ctx, client.Configuration{Queue: "orders", Options: client.Options{LeaseTime: new(int64(60))}})
//
// Configure is repeated as Do is.
func (c *Client) Configure(ctx context.Context, queue Configuration) (inForce Configured, err error) {
	err = c.Do(ctx, Request{Method: http.MethodPost, Path: "/api/v1/configure", Body: queue}, &inForce)
	return inForce, err
}

// DeleteQueue deletes a queue with its messages, groups and dead letters:
//
//	existed, err := c.DeleteQueue(ctx, "orders")
func (c *Client) DeleteQueue(ctx context.Context, queue string) (existed bool, err error) {
	var answer api.DeletedQueue
	err = c.Do(ctx, Request{Method: http.MethodDelete, Path: "/api/v1/resources/queues/" + url.PathEscape(queue)}, &answer)
	return answer.Existed, err
}

// SeekTo is the position to which SeekGroup moves a group. Exactly one field is set.
type SeekTo = api.Seek

// SeekGroup moves a consumer group in all partitions of a queue:
//
//	partitions, err := c.SeekGroup(ctx, "orders", "billing", client.SeekTo{Timestamp: time.Now().Add(-time.Hour)})
//
// It ends the leases of the group in the queue. It returns the number of partitions. 0 means that the queue has no such group.
func (c *Client) SeekGroup(ctx context.Context, queue, group string, to SeekTo) (int64, error) {
	var answer api.Sought
	path := "/api/v1/consumer-groups/" + url.PathEscape(group) + "/queues/" + url.PathEscape(queue) + "/seek"
	err := c.Do(ctx, Request{Method: http.MethodPost, Path: path, Body: to}, &answer)
	return answer.PartitionsUpdated, err
}

// Scale returns how much work a group has, to choose the number of its consumers:
//
//	work, err := c.Scale(ctx, "orders", "billing") // work.Pending messages
func (c *Client) Scale(ctx context.Context, queue, group string) (work api.Scale, err error) {
	err = c.Do(ctx, Request{Method: http.MethodGet, Path: "/api/v1/scale/" + url.PathEscape(queue) + "/" + url.PathEscape(group)}, &work)
	return work, err
}

// Redrive selects dead letters of a queue and a group.
type Redrive = api.Redrive

// Redriven counts the dead letters of a Redrive.
type Redriven = api.Redriven

// Redrive delivers dead letters to their group again:
//
//	redriven, err := c.Redrive(ctx, client.Redrive{Queue: "orders", Group: "billing", All: true})
//
// One call may redrive only a part of the dead letters. Repeat it until Remaining is 0.
func (c *Client) Redrive(ctx context.Context, which Redrive) (Redriven, error) {
	var answer Redriven
	err := c.Do(ctx, Request{Method: http.MethodPost, Path: "/api/v1/dlq/redrive", Body: which}, &answer)
	return answer, err
}

// StoredMessage is a message as GET /api/v1/messages lists it, without its payload.
type StoredMessage = api.ListedMessage

// FindMessage finds a stored message by its transaction id, in the partition to which it was pushed:
//
//	reminder, err := c.FindMessage(ctx, "reminders", "customer-7", "appointment-12")
//
// A push without a partition stores in the partition Default. The error matches ErrNotFound if there is no such message.
func (c *Client) FindMessage(ctx context.Context, queue, partition, transactionID string) (StoredMessage, error) {
	var answer api.Messages
	query := url.Values{"queue": {queue}, "partition": {partition}, "transactionId": {transactionID}}
	err := c.Do(ctx, Request{Method: http.MethodGet, Path: "/api/v1/messages", Query: query}, &answer)
	if err != nil {
		return StoredMessage{}, err
	}
	if len(answer.Messages) == 0 {
		return StoredMessage{}, fmt.Errorf("%w: queue %q, partition %q has no message %q", ErrNotFound, queue, partition, transactionID)
	}
	return answer.Messages[0], nil
}

// MoveMessage moves a message to another instant, before which no pop returns it. The zero time is now:
//
//	err := c.MoveMessage(ctx, reminder.PartitionID, reminder.TransactionID, appointment.Add(-time.Hour))
//
// The error matches ErrConflict if a consumer holds the message or has finished it.
func (c *Client) MoveMessage(ctx context.Context, partitionID, transactionID string, at time.Time) error {
	body := map[string]any{"visibleAt": nil}
	if !at.IsZero() {
		body["visibleAt"] = at
	}
	return c.Do(ctx, Request{Method: http.MethodPatch, Path: messagePath(partitionID, transactionID), Body: body}, nil)
}

// DeleteMessage deletes a message with its dead letters and traces:
//
//	existed, err := c.DeleteMessage(ctx, reminder.PartitionID, reminder.TransactionID)
func (c *Client) DeleteMessage(ctx context.Context, partitionID, transactionID string) (existed bool, err error) {
	var answer api.DeletedMessage
	err = c.Do(ctx, Request{Method: http.MethodDelete, Path: messagePath(partitionID, transactionID)}, &answer)
	return answer.Success, err
}

func messagePath(partitionID, transactionID string) string {
	return "/api/v1/messages/" + url.PathEscape(partitionID) + "/" + url.PathEscape(transactionID)
}
