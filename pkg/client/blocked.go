package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/belfry-mq/belfry/pkg/client/api"
)

// BlockedPartition is a partition that stops before a message without a retry left, until an operator decides.
type BlockedPartition = api.BlockedPartition

// The actions of Unblock.
const (
	UnblockRetry      = "retry"
	UnblockDeadLetter = "deadLetter"
	UnblockSkip       = "skip"
)

// Blocked lists the partitions of a queue that are blocked for a group. after is "" or the next of the page before; next is ""
// on the last page:
//
//	partitions, next, err := c.Blocked(ctx, "orders", "billing", "")
func (c *Client) Blocked(ctx context.Context, queue, group, after string) (partitions []BlockedPartition, next string, err error) {
	var answer api.BlockedPartitions
	query := url.Values{}
	if after != "" {
		query.Set("cursor", after)
	}
	path := "/api/v1/consumer-groups/" + url.PathEscape(group) + "/queues/" + url.PathEscape(queue) + "/blocked"
	err = c.Do(ctx, Request{Method: http.MethodGet, Path: path, Query: query}, &answer)
	if answer.Pagination.Next != nil {
		next = *answer.Pagination.Next
	}
	return answer.Partitions, next, err
}

// Unblock decides about the message at which a partition is blocked for a group:
//
//	err := c.Unblock(ctx, "orders", "billing", "customer-7", client.UnblockRetry)
//
// The error matches ErrConflict if the partition is not blocked, also if an earlier attempt of this call unblocked it.
func (c *Client) Unblock(ctx context.Context, queue, group, partition, action string) error {
	path := "/api/v1/consumer-groups/" + url.PathEscape(group) + "/queues/" + url.PathEscape(queue) + "/partitions/" + url.PathEscape(partition) + "/unblock"
	return c.Do(ctx, Request{Method: http.MethodPost, Path: path, Body: api.Unblock{Action: action}}, nil)
}
