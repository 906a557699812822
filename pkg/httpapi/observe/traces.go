package observe

import (
	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/insight/trace"
	"github.com/belfry-mq/belfry/pkg/queue"
)

func traceRow(t *trace.Trace) api.Trace {
	return api.Trace{
		ID: t.ID.String(), EventType: t.Type, Data: t.Data, ConsumerGroup: t.Group, WorkerID: t.Worker, CreatedAt: t.CreatedAt, Names: t.Names,
	}
}

func namedTraceRow(t *trace.NamedTrace) api.NamedTrace {
	return api.NamedTrace{
		Trace: traceRow(&t.Trace), TransactionID: wire.OrNull(t.TransactionID), PartitionID: t.PartitionID.String(), Queue: t.Queue,
		Partition: t.Partition, Payload: t.Payload,
	}
}

// MessageTraces serves GET /api/v1/traces/:partitionId/:transactionId. Queen MQ does not have the member pagination.
func (h *Handlers) MessageTraces(p *wire.Params) (any, error) {
	var found []trace.Trace
	var cut bool
	page := wire.ReadPage(p, maxLimit)
	page.Offset = 0
	after := trace.Position{}
	after.CreatedAt, after.ID = wire.ReadCursor(p, queue.ParseID)
	ref, err := wire.ReadMessagePath(p)
	if err == nil {
		err = wire.FindPartition(p.Ctx(), h.Owners, ref.Partition, (*identity.Grants).MayRead)
	}
	if err == nil {
		found, cut, err = h.Traces.OfMessage(p.Ctx(), ref.Partition, ref.TransactionID, after, page.Limit)
	} else if queue.CodeOf(err) == queue.CodeNotFound {
		err = nil
	}
	next := wire.NextPage(wire.Cut(page, len(found), cut), found, func(last *trace.Trace) string { return wire.Cursor(last.CreatedAt, last.ID) })
	return api.Traces{Traces: wire.Each(found, traceRow), Pagination: next}, err
}

// NamedTraces serves GET /api/v1/traces/by-name/:name.
func (h *Handlers) NamedTraces(p *wire.Params) (any, error) {
	name, page := p.PathName("name"), wire.ReadPage(p, 100)
	after := trace.Position{}
	after.CreatedAt, after.ID = wire.ReadCursor(p, queue.ParseID)
	if p.Err != nil {
		return nil, p.Err
	}
	found, total, cut, err := h.Traces.ByName(p.Ctx(), name, after, trace.Page{Limit: page.Limit, Offset: page.Offset, Allowed: readable(p), Bound: traceBound(p)})
	next := wire.NextPage(wire.Cut(page, len(found), cut), found, func(last *trace.NamedTrace) string { return wire.Cursor(last.CreatedAt, last.ID) })
	return api.NamedTraces{Traces: wire.Each(found, namedTraceRow), Total: total, Pagination: next}, err
}

// TraceNames serves GET /api/v1/traces/names.
func (h *Handlers) TraceNames(p *wire.Params) (any, error) {
	page := wire.ReadPage(p, 50)
	if p.Err != nil {
		return nil, p.Err
	}
	names, total, err := h.Traces.Names(p.Ctx(), trace.Page{Limit: page.Limit, Offset: page.Offset, Allowed: readable(p), Bound: traceBound(p)})
	return api.TraceNames{Names: names, Total: total, Pagination: page}, err
}

// traceBound reads the parameter bound. It is at most 10,000, and 0 if it is absent.
func traceBound(p *wire.Params) int64 {
	return int64(wire.Clamp(0, wire.LeadingInt(p.QueryParam("bound"), 0), 10_000))
}
