package observe

import (
	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// ListAudit serves GET /api/v1/audit. Queen MQ does not have this route.
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
	return api.Audit{Entries: wire.Each(rows, auditRow), Pagination: api.Page{Limit: int64(limit), Next: next}}, err
}

func auditRow(r *audit.Row) api.AuditEntry {
	return api.AuditEntry{
		ID: r.ID.String(), At: r.At, Subject: wire.OrNull(r.Subject), TokenID: wire.OrNull(r.TokenID), Address: r.Address,
		RequestID: r.RequestID, Action: r.Action, Queue: wire.OrNull(r.Queue), Partition: wire.OrNull(r.Partition),
		ConsumerGroup: wire.OrNull(r.Group), TransactionID: wire.OrNull(r.TransactionID), Parameters: r.Parameters, Counts: r.Counts, Result: r.Result,
		Undoable: r.Undoable, UndoneBy: wire.OrNull(r.UndoID()),
	}
}
