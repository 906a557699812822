package data

import (
	"cmp"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// The limits of one pop. A larger value counts as the limit.
const (
	maxBatch      = 10_000
	maxPartitions = 200
	maxWait       = 10 * time.Minute
)

// PopQueue serves GET /api/v1/pop/queue/:queue. It pops from any partition.
func (h *Handlers) PopQueue(c echo.Context) error {
	p := &wire.Params{Context: c}
	req := h.popRequest(p)
	req.Queue = p.PathName("queue")
	return h.pop(p, req)
}

// PopPartition serves GET /api/v1/pop/queue/:queue/partition/:partition.
func (h *Handlers) PopPartition(c echo.Context) error {
	p := &wire.Params{Context: c}
	req := h.popRequest(p)
	req.Queue = p.PathName("queue")
	partition := p.PathName("partition")
	req.Partition, req.Partitions = &partition, 1
	if p.Err == nil && wire.LeadingInt(c.QueryParam("batch"), 1) == 0 {
		if err := mayPop(p.Ctx(), req); err != nil {
			return err
		}
		return c.NoContent(http.StatusNoContent)
	}
	return h.pop(p, req)
}

// PopTagged serves GET /api/v1/pop?namespace=&task=. It pops from any queue with these tags.
func (h *Handlers) PopTagged(c echo.Context) error {
	p := &wire.Params{Context: c}
	req := h.popRequest(p)
	req.Tags = &queue.Tags{Namespace: p.Text("namespace"), Task: p.Text("task")}
	if *req.Tags == (queue.Tags{}) {
		p.Check(queue.Invalidf("namespace or task is required: /api/v1/pop?namespace=...&task=..., " +
			"or name a queue: /api/v1/pop/queue/NAME"))
	}
	return h.pop(p, req)
}

// pop pops and writes the answer. If it cannot write the answer, it releases the lease.
func (h *Handlers) pop(c *wire.Params, req *queue.PopRequest) error {
	if c.Err != nil {
		return c.Err
	}
	if err := mayPop(c.Ctx(), req); err != nil {
		return err
	}
	req.Memory = wire.Memory(c)
	if req.Memory.AnswerBytesLeft() == 0 { // a refused pop must not register its group
		return queue.MemoryFull()
	}
	delivery, err := h.Popper.Pop(c.Request().Context(), req)
	if err != nil {
		return err
	}
	if len(delivery.Messages) == 0 {
		h.Meter.Empty(req)
		return c.NoContent(http.StatusNoContent)
	}
	h.Holders.Took(c, delivery.LeaseID)
	if err := send(c, delivery); err != nil {
		h.Popper.Release(c.Request().Context(), delivery)
		return err
	}
	h.Meter.Delivered(delivery)
	return nil
}

// popRequest reads the parameters of a pop. A value that cannot be read counts as its
// default; see docs/compatibility.md#pop.
func (h *Handlers) popRequest(p *wire.Params) *queue.PopRequest {
	query := p.QueryParams()
	req := &queue.PopRequest{
		Caller:     wire.Caller(p),
		Group:      cmp.Or(p.Text("consumerGroup"), queue.DefaultGroup),
		Batch:      wire.Clamp(1, wire.LeadingInt(query.Get("batch"), h.Defaults.PopBatchSize), maxBatch),
		Partitions: wire.Clamp(1, wire.LeadingInt(query.Get("partitions"), 1), maxPartitions),
		AutoAck:    wire.IsTrue(query.Get("autoAck")),
	}
	if wire.IsTrue(query.Get("wait")) {
		millis := wire.LeadingInt(query.Get("timeout"), int(h.Defaults.PopTimeout/time.Millisecond))
		req.Wait = time.Duration(wire.Clamp(0, millis, int(maxWait/time.Millisecond))) * time.Millisecond
	}
	if who := identity.From(p.Ctx()); who != nil {
		req.RightsEnd, req.Check = who.EndsAt, who.Check
	}
	var err error
	mode := cmp.Or(query.Get("subscriptionMode"), h.Defaults.SubscriptionMode)
	req.Subscription, err = subscription(mode, query.Get("subscriptionFrom"))
	p.Check(err)
	return req
}

// subscription returns where a new group starts. start, the parameter subscriptionFrom, has
// precedence over mode. If start is not a valid instant, subscription returns an error. A start at
// the first message instead would deliver messages that the consumer wants to exclude.
func subscription(mode, start string) (queue.Subscription, error) {
	switch {
	case strings.EqualFold(start, "now"):
		return queue.Subscription{Mode: queue.SubscribeNew}, nil
	case start != "":
		at, err := wire.Timestamp("subscriptionFrom", start, `"now" or `)
		return queue.Subscription{Mode: queue.SubscribeFrom, From: at}, err
	case mode == "new":
		return queue.Subscription{Mode: queue.SubscribeNew}, nil
	default:
		return queue.Subscription{Mode: queue.SubscribeAll}, nil
	}
}
