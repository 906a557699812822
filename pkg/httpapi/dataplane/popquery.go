package dataplane

import (
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Limits of one pop. A larger value counts as the limit.
const (
	maxBatch      = 10_000
	maxPartitions = 200
	maxWait       = 10 * time.Minute
)

// popRequest reads the query. An unknown or unreadable value counts as its
// default; see docs/compatibility.md#pop.
func (h *Handlers) popRequest(c echo.Context) (*queue.PopRequest, error) {
	query := c.QueryParams()
	req := &queue.PopRequest{
		Group:      query.Get("consumerGroup"),
		Batch:      wire.Clamp(1, wire.LeadingInt(query.Get("batch"), h.Defaults.PopBatchSize), maxBatch),
		Partitions: wire.Clamp(1, wire.LeadingInt(query.Get("partitions"), 1), maxPartitions),
		AutoAck:    wire.IsTrue(query.Get("autoAck")),
	}
	if req.Group == "" {
		req.Group = queue.NoGroup
	}
	if err := wire.CheckName("consumerGroup", req.Group); err != nil {
		return nil, err
	}
	if wire.IsTrue(query.Get("wait")) {
		millis := wire.LeadingInt(query.Get("timeout"), int(h.Defaults.PopTimeout/time.Millisecond))
		req.Wait = time.Duration(wire.Clamp(0, millis, int(maxWait/time.Millisecond))) * time.Millisecond
	}
	mode := query.Get("subscriptionMode")
	if mode == "" {
		mode = h.Defaults.SubscriptionMode
	}
	from, err := subscription(mode, query.Get("subscriptionFrom"))
	if err != nil {
		return nil, err
	}
	req.Subscription = from
	return req, nil
}

// subscription returns where a new group starts. from has precedence over mode.
// An unreadable instant is an error: to start at the first message instead
// would deliver messages that the consumer excluded.
func subscription(mode, from string) (queue.Subscription, error) {
	switch {
	case strings.EqualFold(from, "now"):
		return queue.Subscription{Mode: queue.SubscribeNew}, nil
	case from != "":
		at, err := wire.Timestamp("subscriptionFrom", from, `"now" or `)
		return queue.Subscription{Mode: queue.SubscribeFrom, From: at}, err
	case mode == "new":
		return queue.Subscription{Mode: queue.SubscribeNew}, nil
	default:
		return queue.Subscription{Mode: queue.SubscribeAll}, nil
	}
}
