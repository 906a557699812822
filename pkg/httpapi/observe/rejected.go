package observe

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/engine/inbox"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// ListRejected serves GET /api/v1/inbox/rejected. Queen MQ does not have it.
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
	return wire.Fields{"rows", wire.Each(list.Rows, inboxRow), "examined", list.Examined, "pagination", idPagination(limit, list.Next)}, err
}

func inboxRow(r *inbox.Rejection) wire.Fields {
	return wire.Fields{
		"id", strconv.FormatInt(r.ID, 10), "queue", r.Queue, "partition", r.Partition, "transactionId", r.TransactionID, "traceId", r.TraceID,
		"visibleAt", r.VisibleAt, "insertedAt", r.InsertedAt, "rejectedAt", r.RejectedAt, "code", r.Code, "reason", r.Reason,
		"storedBytes", r.StoredBytes, "excerpt", r.Excerpt,
	}
}

// CheckRejectionCode refuses a code that no row has.
func CheckRejectionCode(code *string) error {
	if code == nil {
		return nil
	}
	if slices.Contains([]queue.Code{queue.CodeInvalid, queue.CodeTooLarge, queue.CodeQueueFull}, queue.Code(*code)) {
		return nil
	}
	return queue.Invalidf("code is %s: it must be %s, %s or %s", wire.Clip(fmt.Sprintf("%q", *code)), queue.CodeInvalid, queue.CodeTooLarge, queue.CodeQueueFull)
}
