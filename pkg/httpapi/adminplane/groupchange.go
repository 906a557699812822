package adminplane

import (
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/catalog"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// deletedGroupJSON is the answer to both deletions of a group.
type deletedGroupJSON struct {
	Success           bool    `json:"success"`
	ConsumerGroup     string  `json:"consumerGroup"`
	QueueName         *string `json:"queueName,omitempty"`
	DeletedPartitions int64   `json:"deletedPartitions"`
	MetadataDeleted   bool    `json:"metadataDeleted"`
}

// DeleteGroup serves DELETE /api/v1/consumer-groups/:group: in all queues.
func (h *Handlers) DeleteGroup(c echo.Context) error {
	return h.deleteGroup(&wire.Params{Context: c}, nil)
}

// DeleteGroupOfQueue serves DELETE /api/v1/consumer-groups/:group/queues/:queue.
func (h *Handlers) DeleteGroupOfQueue(c echo.Context) error {
	p := &wire.Params{Context: c}
	name := p.PathName("queue")
	return h.deleteGroup(p, &name)
}

// deleteGroup deletes a group in one queue, or in all queues for a nil name. It
// keeps the stored subscription when deleteMetadata is false.
func (h *Handlers) deleteGroup(c *wire.Params, queueName *string) error {
	group := c.PathName("group")
	if c.Err != nil {
		return c.Err
	}
	metadata := !c.QueryParams().Has("deleteMetadata") || wire.IsTrue(c.QueryParam("deleteMetadata"))
	deleted, err := h.GroupVerbs.DeleteGroup(c.Request().Context(), group, queueName, !metadata)
	if err != nil {
		return err
	}
	return wire.AnswerJSON(c, http.StatusOK, deletedGroupJSON{
		Success: true, ConsumerGroup: group, QueueName: queueName, DeletedPartitions: deleted.Cursors, MetadataDeleted: metadata,
	})
}

// MoveSubscription serves POST /api/v1/consumer-groups/:group/subscription.
func (h *Handlers) MoveSubscription(c echo.Context) error {
	p := wire.Params{Context: c}
	group := p.PathName("group")
	if p.Err != nil {
		return p.Err
	}
	var start time.Time
	err := h.Bodies.ReadObject(c, func(name string, value jsontext.Value) (err error) {
		if name != "subscriptionTimestamp" || value.Kind() == 'n' {
			return nil
		}
		start, err = wire.TimestampValue(name, value)
		return err
	})
	if err == nil && start.IsZero() {
		err = queue.Invalidf("subscriptionTimestamp is required: a timestamp like 2026-05-16T08:41:27.123Z")
	}
	if err != nil {
		return err
	}
	moved, err := h.GroupVerbs.MoveSubscription(c.Request().Context(), group, start)
	if err != nil {
		return err
	}
	return wire.AnswerJSON(c, http.StatusOK, struct {
		Success       bool   `json:"success"`
		ConsumerGroup string `json:"consumerGroup"`
		NewTimestamp  string `json:"newTimestamp"`
		RowsUpdated   int64  `json:"rowsUpdated"`
	}{true, group, wire.FormatMillis(start), moved})
}

// SeekQueue serves POST /api/v1/consumer-groups/:group/queues/:queue/seek.
func (h *Handlers) SeekQueue(c echo.Context) error {
	p := &wire.Params{Context: c}
	group, name := p.PathName("group"), p.PathName("queue")
	place, given, err := h.readSeek(p)
	if err == nil && !given {
		err = queue.Invalidf("Must specify either 'toEnd': true or 'timestamp', or 'toBeginning': true")
	}
	if err != nil {
		return err
	}
	moved, err := h.GroupVerbs.Seek(c.Request().Context(), name, group, place)
	if err != nil {
		return err
	}
	return wire.AnswerJSON(c, http.StatusOK, struct {
		Success           bool    `json:"success"`
		ConsumerGroup     string  `json:"consumerGroup"`
		QueueName         string  `json:"queueName"`
		SeekToEnd         bool    `json:"seekToEnd"`
		SeekToBeginning   bool    `json:"seekToBeginning"` // Queen MQ does not have it
		TargetTimestamp   *string `json:"targetTimestamp"`
		PartitionsUpdated int64   `json:"partitionsUpdated"`
	}{true, group, name, place.End, !place.End && place.After.IsZero(), millisOrNull(place.After), moved})
}

// SeekPartition serves POST
// /api/v1/consumer-groups/:group/queues/:queue/partitions/:partition/seek. Without
// a position it seeks to the end.
func (h *Handlers) SeekPartition(c echo.Context) error {
	p := &wire.Params{Context: c}
	group, name, partition := p.PathName("group"), p.PathName("queue"), p.PathName("partition")
	place, given, err := h.readSeek(p)
	if err != nil {
		return err
	}
	if !given {
		place.End = true
	}
	sought, err := h.GroupVerbs.SeekPartition(c.Request().Context(), name, group, partition, place)
	if code := queue.CodeOf(err); code == queue.CodeNotFound {
		return wire.AnswerJSON(c, wire.StatusOf(code), failureJSON{Error: err.Error()})
	}
	if err != nil {
		return err
	}
	return wire.AnswerJSON(c, http.StatusOK, struct {
		Success       bool    `json:"success"`
		ConsumerGroup string  `json:"consumerGroup"`
		QueueName     string  `json:"queueName"`
		PartitionName string  `json:"partitionName"`
		Updated       bool    `json:"updated"`
		CursorMovedTo *string `json:"cursorMovedTo"`
	}{true, group, name, partition, sought.Moved, idOrNull(sought.Message)})
}

// readSeek reads a position from the body or the query: toEnd, toBeginning or
// timestamp. Two positions are an error. given is false without a position.
func (h *Handlers) readSeek(c *wire.Params) (place catalog.Position, given bool, err error) {
	if c.Err != nil {
		return place, false, c.Err
	}
	var beginning bool
	place.End, beginning = wire.IsTrue(c.QueryParam("toEnd")), wire.IsTrue(c.QueryParam("toBeginning"))
	if text := c.QueryParam("timestamp"); text != "" {
		if place.After, err = wire.Timestamp("timestamp", text, ""); err != nil {
			return place, false, err
		}
	}
	err = h.Bodies.ReadOptionalObject(c, func(name string, value jsontext.Value) (err error) {
		switch {
		case value.Kind() == 'n':
		case name == "toEnd":
			place.End, err = wire.Bool(name, value)
		case name == "toBeginning":
			beginning, err = wire.Bool(name, value)
		case name == "timestamp":
			place.After, err = wire.TimestampValue(name, value)
		}
		return err
	})
	positions := 0
	for _, one := range []bool{place.End, beginning, !place.After.IsZero()} {
		if one {
			positions++
		}
	}
	if err == nil && positions > 1 {
		err = queue.Invalidf("toEnd, toBeginning and timestamp exclude each other: send one of them")
	}
	return place, positions == 1, err
}
