package client

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// Queue is the name of a queue and its options, for Configure. docs/http/queues.md lists the options.
type Queue struct {
	Name      string `json:"queue"`
	Namespace string `json:"namespace,omitempty"`
	Task      string `json:"task,omitempty"`
	// Options has numbers and booleans, such as "leaseTime": 60. An option that is absent gets its default.
	Options map[string]any `json:"options,omitempty"`
}

// Configure creates a queue, or replaces its options, namespace and task. Returns those in force. Do says how it is repeated.
func (c *Client) Configure(ctx context.Context, queue Queue) (inForce Queue, err error) {
	err = c.Do(ctx, Request{Method: http.MethodPost, Path: "/api/v1/configure", Body: queue}, &inForce)
	return inForce, err
}

// DeleteQueue deletes a queue with its messages, groups and dead letters.
func (c *Client) DeleteQueue(ctx context.Context, queue string) (existed bool, err error) {
	var answer struct {
		Existed bool `json:"existed"`
	}
	err = c.Do(ctx, Request{Method: http.MethodDelete, Path: "/api/v1/resources/queues/" + url.PathEscape(queue)}, &answer)
	return answer.Existed, err
}

// SeekTo is the place to which SeekGroup moves a group. Exactly one of its fields is set.
type SeekTo struct {
	Beginning, End bool
	After          time.Time // the group goes on after the last message that was stored at or before it
}

// SeekGroup moves a consumer group in all partitions of a queue. It ends the leases of the group there. Returns the number of
// partitions; 0 means that the queue has no such group.
func (c *Client) SeekGroup(ctx context.Context, queue, group string, to SeekTo) (int, error) {
	body := map[string]any{"toBeginning": to.Beginning, "toEnd": to.End}
	if !to.After.IsZero() {
		body["timestamp"] = to.After.UTC()
	}
	var answer struct {
		Partitions int `json:"partitionsUpdated"`
	}
	path := "/api/v1/consumer-groups/" + url.PathEscape(group) + "/queues/" + url.PathEscape(queue) + "/seek"
	err := c.Do(ctx, Request{Method: http.MethodPost, Path: path, Body: body}, &answer)
	return answer.Partitions, err
}

// Redrive selects dead letters of a queue and a group. All selects all of them. Otherwise at least one other field is set.
type Redrive struct {
	Queue         string `json:"queue"`
	Group         string `json:"consumerGroup"` // not ""; "__QUEUE_MODE__" is the reader without a group
	Partition     string `json:"partition,omitempty"`
	TransactionID string `json:"transactionId,omitempty"`
	Error         string `json:"error,omitempty"`
	All           bool   `json:"all,omitempty"`
	ToQueue       string `json:"toQueue,omitempty"` // moves the messages to this queue, which exists, instead
	DryRun        bool   `json:"dryRun,omitempty"`  // only counts the dead letters
}

// Redriven counts the dead letters of a Redrive.
type Redriven struct {
	Matched   int `json:"matched"`
	Redriven  int `json:"redriven"`
	Skipped   int `json:"skipped"`   // dead letters without a message or a group
	Remaining int `json:"remaining"` // for the next call
}

// Redrive delivers dead letters to their group again. One call redrives a part of them: repeat it until Remaining is 0.
func (c *Client) Redrive(ctx context.Context, which Redrive) (Redriven, error) {
	var answer Redriven
	err := c.Do(ctx, Request{Method: http.MethodPost, Path: "/api/v1/dlq/redrive", Body: which}, &answer)
	return answer, err
}
