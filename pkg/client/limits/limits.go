// Package limits has the calls of the Go client about the limits and the breakers of consumer groups. A program gets them from Client.Limits:
//
//	_, err := c.Limits().Set(ctx, "orders", "billing", client.Limits{
//		Concurrency: 5, RateLimit: &client.RateLimit{Messages: 100, Per: "1s"},
//	})
//
// An error is a *client.Error. If the queue does not exist, the error matches client.ErrNotFound. The group need not exist.
//
// The package imports only pkg/client/api.
package limits

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/belfry-mq/belfry/pkg/client/api"
)

// SendFunc sends a request and decodes the answer into the variable to which into points.
type SendFunc func(ctx context.Context, method, path string, query url.Values, body, into any) error

// Limits sends requests about limits. It is safe for concurrent use.
type Limits struct{ send SendFunc }

// New returns Limits that send their requests with a function.
func New(send SendFunc) Limits { return Limits{send} }

// Get returns the limits in force of a group, where they come from, and their use.
func (l Limits) Get(ctx context.Context, queue, group string) (inForce api.GroupLimits, err error) {
	return inForce, l.send(ctx, http.MethodGet, ofGroup(queue, group), nil, nil, &inForce)
}

// Set replaces the limits of a group. A zero field is no limit. The zero Limits mean no limits, whatever the default of the queue is.
func (l Limits) Set(ctx context.Context, queue, group string, to api.Limits) (set api.LimitsSet, err error) {
	return set, l.send(ctx, http.MethodPut, ofGroup(queue, group), nil, to, &set)
}

// Remove removes the limits of a group, so it has the default of the queue again.
func (l Limits) Remove(ctx context.Context, queue, group string) (set api.LimitsSet, err error) {
	return set, l.send(ctx, http.MethodDelete, ofGroup(queue, group), nil, nil, &set)
}

// Default returns the default limits of a queue, and the groups that have limits of their own after the name in cursor. The first page
// has the cursor "". Pagination.Next is the cursor of the next page.
func (l Limits) Default(ctx context.Context, queue, cursor string) (page api.QueueLimits, err error) {
	query := url.Values{"limit": {"200"}}
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	return page, l.send(ctx, http.MethodGet, ofQueue(queue), query, nil, &page)
}

// SetDefault replaces the limits of the groups of a queue that have none of their own.
func (l Limits) SetDefault(ctx context.Context, queue string, to api.Limits) (set api.LimitsSet, err error) {
	return set, l.send(ctx, http.MethodPut, ofQueue(queue), nil, to, &set)
}

// RemoveDefault removes the default limits of a queue.
func (l Limits) RemoveDefault(ctx context.Context, queue string) (set api.LimitsSet, err error) {
	return set, l.send(ctx, http.MethodDelete, ofQueue(queue), nil, nil, &set)
}

// Breaker returns the state of the breaker of a group.
func (l Limits) Breaker(ctx context.Context, queue, group string) (state api.BreakerState, err error) {
	return state, l.send(ctx, http.MethodGet, breakerOf(queue, group), nil, nil, &state)
}

// OpenBreaker opens the breaker of a group. The group gets no message until the pause is over. The pause is at most 24 hours. With 0 it is
// the pause of the breaker in the limits. The error matches client.ErrConflict if the limits of the group have no breaker.
func (l Limits) OpenBreaker(ctx context.Context, queue, group string, pause time.Duration, reason string) (changed api.BreakerChanged, err error) {
	body := api.OpenBreaker{Reason: reason}
	if pause != 0 {
		body.Pause = pause.String()
	}
	return changed, l.send(ctx, http.MethodPost, breakerOf(queue, group)+"/open", nil, body, &changed)
}

// CloseBreaker closes the breaker of a group, so the group gets messages at once.
func (l Limits) CloseBreaker(ctx context.Context, queue, group string) (changed api.BreakerChanged, err error) {
	return changed, l.send(ctx, http.MethodPost, breakerOf(queue, group)+"/close", nil, nil, &changed)
}

func breakerOf(queue, group string) string {
	return strings.TrimSuffix(ofGroup(queue, group), "limits") + "breaker"
}

func ofGroup(queue, group string) string {
	return "/api/v1/consumer-groups/" + url.PathEscape(group) + "/queues/" + url.PathEscape(queue) + "/limits"
}

func ofQueue(queue string) string {
	return "/api/v1/resources/queues/" + url.PathEscape(queue) + "/limits"
}
