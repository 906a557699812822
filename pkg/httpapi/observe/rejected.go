package observe

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/engine/inbox"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// ListRejected serves GET /api/v1/inbox/rejected. Queen MQ does not have this route.
func (h *Handlers) ListRejected(p *wire.Params) (any, error) {
	f := inbox.RejectedFilter{Queue: p.Name("queue"), Code: p.Name("code"), Allowed: identity.GrantsOf(p.Ctx()).Readable()}
	if f.Queue != nil {
		p.Check(wire.MayRead(p.Ctx(), *f.Queue))
	}
	p.Check(CheckRejectionCode(f.Code))
	before, limit := idCursor(p), wire.Limit(p)
	if p.Err != nil {
		return nil, p.Err
	}
	list, err := h.Rejections.List(p.Ctx(), f, before, limit)
	return api.RejectedRows{Rows: wire.Each(list.Rows, inboxRow), Examined: list.Examined, Pagination: idPagination(limit, list.Next)}, err
}

func inboxRow(r *inbox.Rejection) api.RejectedRow {
	return api.RejectedRow{
		ID: strconv.FormatInt(r.ID, 10), Queue: r.Queue, Partition: r.Partition, TransactionID: r.TransactionID, TraceID: wire.IDOrNull(r.TraceID),
		VisibleAt: &r.VisibleAt, InsertedAt: r.InsertedAt, RejectedAt: r.RejectedAt, Code: r.Code, Reason: r.Reason,
		StoredBytes: r.StoredBytes, Excerpt: r.Excerpt,
	}
}

// CheckRejectionCode returns an error if no rejected row can have the code.
func CheckRejectionCode(code *string) error {
	if code == nil {
		return nil
	}
	if slices.Contains([]queue.Code{queue.CodeInvalid, queue.CodeTooLarge, queue.CodeQueueFull}, queue.Code(*code)) {
		return nil
	}
	return queue.Invalidf("code is %s: it must be %s, %s or %s", wire.Clip(fmt.Sprintf("%q", *code)), queue.CodeInvalid, queue.CodeTooLarge, queue.CodeQueueFull)
}
