package observe

import (
	"strconv"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/engine/attach"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// ListAttachments serves GET /api/v1/attachments. Queen MQ does not have it.
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
	return wire.Fields{"attachments", wire.Each(found, attachmentRow), "pagination", idPagination(limit, next)}, err
}

func attachmentRow(a *attach.Attachment) wire.Fields {
	return wire.Fields{
		"table", a.Table, "queue", a.Queue, "events", a.Events, "key", a.Key, "condition", wire.OrNull(a.Condition), "payload", a.Payload,
		"columns", a.Columns, "strict", a.Strict, "attachedBy", a.AttachedBy, "attachedAt", a.AttachedAt,
		"complete", a.Triggers >= int64(len(a.Events)), "failures", a.Failures, "lastFailedAt", a.LastFailedAt, "lastFailure", wire.OrNull(a.LastFailure),
	}
}

// idCursor reads a cursor that is an id; 0 on the first page.
func idCursor(p *wire.Params) int64 {
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

// idPagination describes a page. next is the id after which the list goes on, 0 at its end.
func idPagination(limit, next int64) wire.Fields {
	var cursor *string
	if next != 0 {
		cursor = wire.OrNull(strconv.FormatInt(next, 10))
	}
	return wire.Fields{"limit", limit, "next", cursor}
}
