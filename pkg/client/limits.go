package client

import (
	"context"
	"net/url"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/client/limits"
)

type (
	// Limits are the limits of a consumer group.
	Limits = api.Limits
	// RateLimit is the rate of Limits.
	RateLimit = api.RateLimit
	// Breaker is the circuit breaker of Limits.
	Breaker = api.Breaker
)

// Limits returns the calls about limits and breakers; see package limits.
func (c *Client) Limits() limits.Limits {
	return limits.New(func(ctx context.Context, method, path string, query url.Values, body, into any) error {
		return c.Do(ctx, Request{Method: method, Path: path, Query: query, Body: body}, into)
	})
}
