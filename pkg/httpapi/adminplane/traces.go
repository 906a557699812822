package adminplane

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/insight/trace"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// maxTraceNames is how many names one trace may have.
const maxTraceNames = 50

func traceRow(t *trace.Trace) wire.Fields {
	return wire.Fields{
		"id", t.ID, "event_type", t.Type, "data", wire.Stored(t.Data), "consumer_group", t.Group,
		"worker_id", t.Worker, "created_at", t.CreatedAt, "trace_names", t.Names,
	}
}

func namedTraceRow(t *trace.NamedTrace) wire.Fields {
	return append(traceRow(&t.Trace),
		"transaction_id", orNull(t.TransactionID), "partition_id", t.PartitionID, "queue_name", t.Queue,
		"partition_name", t.Partition, "message_payload", wire.Stored(t.Payload))
}

// traceReader reads the body of a trace.
type traceReader struct {
	trace.Event
	partition string
}

func (r *traceReader) member(name string, value jsontext.Value) error {
	switch name {
	case "transactionId":
		r.TransactionID, _ = wire.Text(value)
	case "partitionId":
		r.partition, _ = wire.Text(value)
	case "consumerGroup":
		r.Group = wire.ConsumerGroup(value)
		return wire.CheckName("consumerGroup", r.Group)
	case "eventType":
		if event, ok := wire.Text(value); ok && event != "" {
			r.Type = event
			return wire.CheckName("eventType", event)
		}
	case "data":
		r.Data = nil
		if value.Kind() != 'n' {
			r.Data = json.RawMessage(value.Clone())
		}
	case "traceNames":
		return r.names(value)
	}
	return nil
}

func (r *traceReader) names(value jsontext.Value) error {
	r.Names = nil
	add := func(_ int, value jsontext.Value) error {
		name, ok := wire.Text(value)
		if !ok {
			return queue.Invalidf("traceNames must hold strings, not %s", wire.Clip(string(value)))
		}
		if name != "" && !slices.Contains(r.Names, name) {
			r.Names = append(r.Names, name)
		}
		if len(r.Names) > maxTraceNames {
			return queue.Invalidf("traceNames has more than %d names", maxTraceNames)
		}
		return wire.CheckName("a name of traceNames", name)
	}
	switch value.Kind() {
	case 'n':
		return nil
	case '"':
		return add(0, value)
	case '[':
		_, err := wire.Elements(value, add)
		return err
	default:
		return queue.Invalidf("traceNames must be a string or an array of strings, not %s", wire.Clip(string(value)))
	}
}

// AddTrace serves POST /api/v1/traces.
func (h *Handlers) AddTrace(p *wire.Params) (any, error) {
	r := traceReader{Event: trace.Event{Group: queue.DefaultGroup, Type: "info"}}
	if err := h.Bodies.ReadObject(p, r.member); err != nil {
		return nil, err
	}
	switch {
	case r.TransactionID == "" || r.partition == "":
		return nil, queue.Invalidf("transactionId and partitionId are required")
	case r.Data == nil:
		return nil, queue.Invalidf("data is required")
	}
	r.TransactionID = wire.ReplaceNUL(r.TransactionID)
	id, err := h.storeTrace(p.Ctx(), r)
	if queue.CodeOf(err) == queue.CodeNotFound {
		return notFound(p, err)
	}
	p.Status = http.StatusCreated
	return wire.Fields{"success", true, "traceId", id}, err
}

func (h *Handlers) storeTrace(ctx context.Context, r traceReader) (id queue.ID, err error) {
	if r.PartitionID, err = parsePartition(r.partition); err != nil {
		return id, err
	}
	err = h.findPartition(ctx, r.PartitionID, func(g *identity.Grants, queueName string) bool { return g.MayConsume(queueName, r.Group) })
	if err != nil {
		return id, err
	}
	return h.Traces.Add(ctx, r.Event)
}

// notFound answers 404 with a body that Queen MQ marks with success.
func notFound(p *wire.Params, err error) (any, error) {
	p.Status = http.StatusNotFound
	return wire.Fields{"success", false, "error", err.Error()}, nil
}

// MessageTraces serves GET /api/v1/traces/:partitionId/:transactionId. pagination is not in Queen MQ.
func (h *Handlers) MessageTraces(p *wire.Params) (any, error) {
	var found []trace.Trace
	var cut bool
	page := readPage(p, maxLimit)
	page.Offset = 0
	after := trace.Position{}
	after.CreatedAt, after.ID = readCursor(p, queue.ParseID)
	ref, err := readMessagePath(p)
	if err == nil {
		err = h.findPartition(p.Ctx(), ref.partition, (*identity.Grants).MayRead)
	}
	if err == nil {
		found, cut, err = h.Traces.OfMessage(p.Ctx(), ref.partition, ref.transactionID, after, page.Limit)
	} else if queue.CodeOf(err) == queue.CodeNotFound {
		err = nil
	}
	next := nextPage(page.Cut(len(found), cut), found, func(last *trace.Trace) string { return cursor(last.CreatedAt, last.ID) })
	return wire.Fields{"traces", each(found, traceRow), "pagination", next}, err
}

// NamedTraces serves GET /api/v1/traces/by-name/:name.
func (h *Handlers) NamedTraces(p *wire.Params) (any, error) {
	name, page := p.PathName("name"), readPage(p, 100)
	after := trace.Position{}
	after.CreatedAt, after.ID = readCursor(p, queue.ParseID)
	if p.Err != nil {
		return nil, p.Err
	}
	found, total, cut, err := h.Traces.ByName(p.Ctx(), name, after, trace.Page{Limit: page.Limit, Offset: page.Offset, Allowed: readable(p), Bound: traceBound(p)})
	next := nextPage(page.Cut(len(found), cut), found, func(last *trace.NamedTrace) string { return cursor(last.CreatedAt, last.ID) })
	return wire.Fields{"traces", each(found, namedTraceRow), "total", total, "pagination", next}, err
}

// TraceNames serves GET /api/v1/traces/names.
func (h *Handlers) TraceNames(p *wire.Params) (any, error) {
	page := readPage(p, 50)
	if p.Err != nil {
		return nil, p.Err
	}
	names, total, err := h.Traces.Names(p.Ctx(), trace.Page{Limit: page.Limit, Offset: page.Offset, Allowed: readable(p), Bound: traceBound(p)})
	list := each(names, func(n *trace.NameCount) wire.Fields {
		return wire.Fields{"trace_name", n.Name, "trace_count", n.Traces, "message_count", n.Messages, "last_seen", n.LastSeen}
	})
	return wire.Fields{"trace_names", list, "total", total, "pagination", page}, err
}

// traceBound reads bound: 0 without it, and at most 10000.
func traceBound(p *wire.Params) int64 {
	return int64(wire.Clamp(0, wire.LeadingInt(p.QueryParam("bound"), 0), 10_000))
}
