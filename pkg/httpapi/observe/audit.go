package observe

import (
	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// ListAudit serves GET /api/v1/audit. Queen MQ does not have it.
func (h *Handlers) ListAudit(p *wire.Params) (any, error) {
	filter := audit.Filter{
		Action: p.Name("action"), Queue: p.Name("queue"), Group: p.Name("consumerGroup"), Subject: p.Name("subject"),
		From: p.Instant("from"), To: p.Instant("to"),
	}
	filter.Allowed = identity.GrantsOf(p.Ctx()).Administrable()
	if filter.Queue != nil {
		p.Check(wire.MayAdminister(p.Ctx(), *filter.Queue))
	}
	p.Check(wire.CheckSpan(filter.From, filter.To))
	limit := limitOf(p)
	after := audit.Key{}
	after.At, after.ID = wire.ReadCursor(p, queue.ParseID)
	if p.Err != nil {
		return nil, p.Err
	}
	rows, err := h.Audit.List(p.Ctx(), filter, after, int64(limit))
	var next *string
	if n := len(rows); n == limit {
		next = wire.OrNull(wire.Cursor(rows[n-1].At, rows[n-1].ID))
	}
	return wire.Fields{"entries", wire.Each(rows, auditRow), "pagination", wire.Fields{"limit", limit, "next", next}}, err
}

func auditRow(r *audit.Row) wire.Fields {
	return wire.Fields{
		"id", r.ID, "at", r.At, "subject", wire.OrNull(r.Subject), "tokenId", wire.OrNull(r.TokenID), "address", r.Address,
		"requestId", r.RequestID, "action", r.Action, "queue", wire.OrNull(r.Queue), "partition", wire.OrNull(r.Partition),
		"consumerGroup", wire.OrNull(r.Group), "transactionId", wire.OrNull(r.TransactionID),
		"parameters", wire.Stored(r.Parameters), "counts", wire.Stored(r.Counts), "result", r.Result,
	}
}
