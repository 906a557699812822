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

// Configured is the answer to Configure.
type Configured struct {
	// Options are the options in force.
	Options map[string]any `json:"options"`
	// Warnings name the options that the server does not know or that have no effect.
	Warnings []string `json:"warnings"`
}

// Configure creates a queue, or replaces all its options, its namespace and its task. Like the other calls of
// this file it is repeated as Do says.
func (c *Client) Configure(ctx context.Context, queue Queue) (Configured, error) {
	var answer Configured
	err := c.Do(ctx, Request{Method: http.MethodPost, Path: "/api/v1/configure", Body: queue}, &answer)
	return answer, err
}

// DeleteQueue deletes a queue with its messages, groups and dead letters. existed is false if there was no such queue; also
// when the answer to a first attempt was lost.
func (c *Client) DeleteQueue(ctx context.Context, queue string) (existed bool, err error) {
	var answer struct {
		Existed bool `json:"existed"`
	}
	err = c.Do(ctx, Request{Method: http.MethodDelete, Path: "/api/v1/resources/queues/" + url.PathEscape(queue)}, &answer)
	return answer.Existed, err
}

// SeekTo is the place to which SeekGroup moves a group. Exactly one of its fields is set.
type SeekTo struct {
	Beginning bool
	End       bool
	// After is an instant: the group goes on after the last message that was stored at or before it.
	After time.Time
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

// DeleteGroup deletes a consumer group in a queue, or in all queues if queue is "". Returns the number of partitions in which
// the group had a place.
func (c *Client) DeleteGroup(ctx context.Context, queue, group string) (int, error) {
	path := "/api/v1/consumer-groups/" + url.PathEscape(group)
	if queue != "" {
		path += "/queues/" + url.PathEscape(queue)
	}
	var answer struct {
		Partitions int `json:"deletedPartitions"`
	}
	err := c.Do(ctx, Request{Method: http.MethodDelete, Path: path}, &answer)
	return answer.Partitions, err
}

// Redrive selects dead letters of a queue and a group. All selects all of them. Otherwise at least one other field is set.
type Redrive struct {
	Queue         string `json:"queue"`
	Group         string `json:"consumerGroup"` // "__QUEUE_MODE__" is the reader without a group
	Partition     string `json:"partition,omitempty"`
	TransactionID string `json:"transactionId,omitempty"`
	Error         string `json:"error,omitempty"`
	All           bool   `json:"all,omitempty"`
	// DryRun only counts the dead letters.
	DryRun bool `json:"dryRun,omitempty"`
}

// Redriven counts the dead letters of a Redrive.
type Redriven struct {
	Matched  int `json:"matched"`
	Redriven int `json:"redriven"`
	// Skipped dead letters have no message or no group any more.
	Skipped int `json:"skipped"`
	// Remaining dead letters are left for the next call.
	Remaining int `json:"remaining"`
}

// Redrive delivers dead letters to their group again. One call redrives a part of them: repeat it until Remaining is 0.
func (c *Client) Redrive(ctx context.Context, which Redrive) (Redriven, error) {
	var answer Redriven
	err := c.Do(ctx, Request{Method: http.MethodPost, Path: "/api/v1/dlq/redrive", Body: which}, &answer)
	return answer, err
}
