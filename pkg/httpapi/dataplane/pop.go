package dataplane

import (
	"net/http"
	"strconv"
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

// PopQueue serves GET /api/v1/pop/queue/:queue: any partition.
func (h *Handlers) PopQueue(c echo.Context) error {
	req, err := h.popRequest(c)
	if err != nil {
		return err
	}
	if req.Queue, err = wire.PathName(c, "queue"); err != nil {
		return err
	}
	return h.pop(c, req)
}

// PopPartition serves GET /api/v1/pop/queue/:queue/partition/:partition.
func (h *Handlers) PopPartition(c echo.Context) error {
	req, err := h.popRequest(c)
	if err != nil {
		return err
	}
	if req.Queue, err = wire.PathName(c, "queue"); err != nil {
		return err
	}
	partition, err := wire.PathName(c, "partition")
	if err != nil {
		return err
	}
	req.Partition, req.Partitions = &partition, 1
	if wire.LeadingInt(c.QueryParam("batch"), 1) == 0 {
		return c.NoContent(http.StatusNoContent)
	}
	return h.pop(c, req)
}

// PopTagged serves GET /api/v1/pop?namespace=&task=: all queues with these tags.
func (h *Handlers) PopTagged(c echo.Context) error {
	req, err := h.popRequest(c)
	if err != nil {
		return err
	}
	var tags queue.Tags
	if tags.Namespace, err = wire.TextQuery(c, "namespace"); err != nil {
		return err
	}
	if tags.Task, err = wire.TextQuery(c, "task"); err != nil {
		return err
	}
	if tags == (queue.Tags{}) {
		return queue.Invalidf("namespace or task is required: /api/v1/pop?namespace=...&task=..., " +
			"or name a queue: /api/v1/pop/queue/NAME")
	}
	req.Tags = &tags
	return h.pop(c, req)
}

// pop answers with the messages. It releases the lease when the answer cannot
// be written.
func (h *Handlers) pop(c echo.Context, req *queue.PopRequest) error {
	delivery, err := h.Popper.Pop(c.Request().Context(), req)
	if err != nil {
		return err
	}
	if len(delivery.Messages) == 0 {
		return c.NoContent(http.StatusNoContent)
	}
	if err := send(c, appendDelivery(delivery)); err != nil {
		h.Popper.Release(c.Request().Context(), delivery)
		return err
	}
	h.Meter.Delivered(delivery)
	return nil
}

// send writes a delivery and returns an error when the client cannot have
// received all of it. It looks for a disconnected client before the last byte:
//
//  1. Without the last byte no client can parse the answer.
//  2. With the last byte a client may have read the answer and disconnected
//     before send returns. Such a disconnect is no reason to release the lease.
func send(c echo.Context, body []byte) error {
	r := c.Response()
	r.Header().Set(echo.HeaderContentType, echo.MIMEApplicationJSON)
	r.Header().Set(echo.HeaderContentLength, strconv.Itoa(len(body)))
	r.WriteHeader(http.StatusOK)
	last := len(body) - 1
	if _, err := r.Write(body[:last]); err != nil {
		return err
	}
	if err := c.Request().Context().Err(); err != nil {
		return err
	}
	if _, err := r.Write(body[last:]); err != nil {
		return err
	}
	return http.NewResponseController(r.Writer).Flush() // echo's own Flush returns no error
}

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
