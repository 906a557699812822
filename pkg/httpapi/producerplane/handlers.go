// Package producerplane serves what operators need of producers that write with SQL: the attached tables,
// and the rejected rows of the inbox with retry and discard.
//
// It promises that a list reads a bounded number of rows, and that a retry or a discard says what it
// selects: a misspelled field gets 400. It declares the interfaces it calls. Only pkg/httpapi imports it.
package producerplane

import (
	"context"
	"strconv"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/engine/attach"
	"github.com/belfry-mq/belfry/pkg/engine/inbox"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Attachments lists attached tables. allowed are patterns of the queues to read. Nil: all.
type Attachments interface {
	List(ctx context.Context, allowed []string, after, limit int64) ([]attach.Attachment, error)
}

// Rejections lists, retries and discards the rejected rows of the inbox.
type Rejections interface {
	List(ctx context.Context, f inbox.RejectedFilter, before, limit int64) (inbox.RejectedList, error)
	Retry(ctx context.Context, f inbox.RejectedFilter) (rows int64, more bool, err error)
	Discard(ctx context.Context, f inbox.RejectedFilter) (rows int64, more bool, err error)
}

// Handlers has one method for each route.
type Handlers struct {
	Attachments Attachments
	Rejections  Rejections
	Bodies      wire.BodyReader
}

// ListAttachments serves GET /api/v1/attachments. Queen MQ does not have it.
func (h *Handlers) ListAttachments(p *wire.Params) (any, error) {
	after, limit := cursorOf(p), wire.Limit(p)
	if p.Err != nil {
		return nil, p.Err
	}
	found, err := h.Attachments.List(p.Ctx(), identity.GrantsOf(p.Ctx()).Readable(), after, limit)
	var next int64
	if n := len(found); int64(n) == limit {
		next = found[n-1].ID
	}
	return wire.Fields{"attachments", wire.Each(found, attachmentRow), "pagination", pagination(limit, next)}, err
}

func attachmentRow(a *attach.Attachment) wire.Fields {
	return wire.Fields{
		"table", a.Table, "queue", a.Queue, "events", a.Events, "key", a.Key, "condition", wire.OrNull(a.Condition), "payload", a.Payload,
		"columns", a.Columns, "strict", a.Strict, "attachedBy", a.AttachedBy, "attachedAt", a.AttachedAt,
		"complete", a.Triggers >= int64(len(a.Events)), "failures", a.Failures, "lastFailedAt", a.LastFailedAt, "lastFailure", wire.OrNull(a.LastFailure),
	}
}

// cursorOf reads a cursor that is an id; 0 on the first page.
func cursorOf(p *wire.Params) int64 {
	text := p.QueryParam("cursor")
	if text == "" {
		return 0
	}
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id <= 0 {
		p.Check(queue.Invalidf("cursor is %q: use what pagination.next of the page before says", wire.Clip(text)))
	}
	return id
}

// pagination describes a page. next is the id after which the list goes on, 0 at its end.
func pagination(limit, next int64) wire.Fields {
	var cursor *string
	if next != 0 {
		cursor = wire.OrNull(strconv.FormatInt(next, 10))
	}
	return wire.Fields{"limit", limit, "next", cursor}
}
