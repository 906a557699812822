package observe

import (
	"strconv"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/engine/attach"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// ListAttachments serves GET /api/v1/attachments. Queen MQ does not have this route.
func (h *Handlers) ListAttachments(p *wire.Params) (any, error) {
	after, limit := idCursor(p), wire.Limit(p)
	if p.Err != nil {
		return nil, p.Err
	}
	found, err := h.Attachments.List(p.Ctx(), identity.GrantsOf(p.Ctx()).Readable(), after, limit)
	var next int64
	if n := len(found); int64(n) == limit {
		next = found[n-1].ID
	}
	return api.Attachments{Attachments: wire.Each(found, attachmentRow), Pagination: idPagination(limit, next)}, err
}

func attachmentRow(a *attach.Attachment) api.Attachment {
	return api.Attachment{
		Table: a.Table, Queue: a.Queue, Events: a.Events, Key: a.Key, Condition: wire.OrNull(a.Condition), Headers: wire.OrNull(a.Headers), Payload: a.Payload,
		Columns: a.Columns, Strict: a.Strict, AttachedBy: a.AttachedBy, AttachedAt: a.AttachedAt, Complete: a.Triggers >= int64(len(a.Events)),
		Failures: a.Failures, LastFailedAt: &a.LastFailedAt, LastFailure: wire.OrNull(a.LastFailure),
	}
}

// idCursor reads a cursor that is an id. Without a cursor it returns 0.
func idCursor(p *wire.Params) int64 {
	text := p.QueryParam("cursor")
	if text == "" {
		return 0
	}
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id <= 0 {
		p.Check(queue.Invalidf("cursor is %q: use pagination.next of the previous page", wire.Clip(text)))
	}
	return id
}

// idPagination describes a page. next is the last id of the page, or 0 if it is the last page.
func idPagination(limit, next int64) api.Page {
	var cursor *string
	if next != 0 {
		cursor = wire.OrNull(strconv.FormatInt(next, 10))
	}
	return api.Page{Limit: limit, Next: cursor}
}
