package data

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/insight/trace"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// maxTraceNames is the maximum number of names of a trace.
const maxTraceNames = 50

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
		return wire.NotFound(p, err)
	}
	p.Status = http.StatusCreated
	return api.AddedTrace{Success: true, TraceID: id.String()}, err
}

func (h *Handlers) storeTrace(ctx context.Context, r traceReader) (id queue.ID, err error) {
	if r.PartitionID, err = wire.ParsePartition(r.partition); err != nil {
		return id, err
	}
	err = wire.FindPartition(ctx, h.Owners, r.PartitionID, func(g *identity.Grants, queueName string) bool { return g.MayConsume(queueName, r.Group) })
	if err != nil {
		return id, err
	}
	return h.Traces.Add(ctx, r.Event)
}
