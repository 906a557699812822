package dataplane

import (
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
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
