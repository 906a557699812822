package client

import (
	"context"
	"net/url"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/client/schedules"
)

// SetSchedule says when a schedule puts which message into a queue.
type SetSchedule = api.SetSchedule

// Schedules returns the calls about schedules; see package schedules.
func (c *Client) Schedules() schedules.Schedules {
	return schedules.New(func(ctx context.Context, method, path string, query url.Values, body, into any) error {
		return c.Do(ctx, Request{Method: method, Path: path, Query: query, Body: body}, into)
	})
}
