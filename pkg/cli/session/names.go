package session

import (
	"context"
	"net/http"
	"net/url"

	"github.com/belfry-mq/belfry/pkg/client"
	"github.com/belfry-mq/belfry/pkg/client/api"
)

// Queues returns the names of queues, or nil after a failure.
func Queues(ctx context.Context, c *client.Client) []string {
	var answer api.QueueStatuses
	if c.Do(ctx, client.Request{Method: http.MethodGet, Path: "/api/v1/status/queues", Query: url.Values{"limit": {"1000"}}}, &answer) != nil {
		return nil
	}
	names := make([]string, 0, len(answer.Queues))
	for _, q := range answer.Queues {
		names = append(names, q.Name)
	}
	return names
}

// Groups returns the names of consumer groups, or nil after a failure.
func Groups(ctx context.Context, c *client.Client) []string {
	var answer []api.Group
	if c.Do(ctx, client.Request{Method: http.MethodGet, Path: "/api/v1/consumer-groups"}, &answer) != nil {
		return nil
	}
	var names []string
	for _, g := range answer {
		names = append(names, g.Name)
	}
	return names
}

// Schedules returns the names of schedules, or nil after a failure.
func Schedules(ctx context.Context, c *client.Client) []string {
	var answer api.SchedulePage
	if c.Do(ctx, client.Request{Method: http.MethodGet, Path: "/api/v1/schedules", Query: url.Values{"limit": {"1000"}}}, &answer) != nil {
		return nil
	}
	names := make([]string, 0, len(answer.Schedules))
	for i := range answer.Schedules {
		names = append(names, answer.Schedules[i].Name)
	}
	return names
}
