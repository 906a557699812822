package adminplane

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/pkg/trace"
)

// maxTraceNames is how many names one trace may have.
const maxTraceNames = 50

type traceJSON struct {
	ID        string          `json:"id"`
	EventType string          `json:"event_type"`
	Data      json.RawMessage `json:"data"`
	Group     string          `json:"consumer_group"`
	Worker    string          `json:"worker_id"`
	CreatedAt string          `json:"created_at"`
	Names     []string        `json:"trace_names"`
}

type namedTraceJSON struct {
	traceJSON
	TransactionID *string         `json:"transaction_id"`
	PartitionID   string          `json:"partition_id"`
	Queue         string          `json:"queue_name"`
	Partition     string          `json:"partition_name"`
	Payload       json.RawMessage `json:"message_payload"`
}

type traceNameJSON struct {
	Name     string `json:"trace_name"`
	Traces   int64  `json:"trace_count"`
	Messages int64  `json:"message_count"`
	LastSeen string `json:"last_seen"`
}

func toTraceJSON(t *trace.Trace) traceJSON {
	names := t.Names
	if names == nil {
		names = []string{}
	}
	return traceJSON{t.ID.String(), t.Type, t.Data, t.Group, t.Worker, wire.FormatMillis(t.CreatedAt), names}
}

// traceReader reads the body of a trace.
type traceReader struct {
	trace.Event
	partition string
	hasData   bool
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
		r.Data, r.hasData = json.RawMessage(value.Clone()), value.Kind() != 'n'
	case "traceNames":
		return r.names(value)
	}
	return nil
}

func (r *traceReader) names(value jsontext.Value) error {
	r.Names = nil
	add := func(value jsontext.Value) error {
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
		return add(value)
	case '[':
		_, err := wire.Elements(value, add)
		return err
	default:
		return queue.Invalidf("traceNames must be a string or an array of strings, not %s", wire.Clip(string(value)))
	}
}

// AddTrace serves POST /api/v1/traces.
func (h *Handlers) AddTrace(c echo.Context) error {
	r := traceReader{Event: trace.Event{Group: queue.NoGroup, Type: "info"}}
	if err := h.Bodies.ReadObject(c, r.member); err != nil {
		return err
	}
	switch {
	case r.TransactionID == "" || r.partition == "":
		return queue.Invalidf("transactionId and partitionId are required")
	case !r.hasData:
		return queue.Invalidf("data is required")
	}
	r.TransactionID = wire.ReplaceNUL(r.TransactionID)
	id, err := h.storeTrace(c.Request().Context(), r)
	switch queue.CodeOf(err) {
	case "":
		return wire.AnswerJSON(c, http.StatusCreated, struct {
			Success bool   `json:"success"`
			TraceID string `json:"traceId"`
		}{true, id.String()})
	case queue.CodeNotFound:
		return wire.AnswerJSON(c, http.StatusNotFound, failureJSON{Error: err.Error()})
	default:
		return err
	}
}

func (h *Handlers) storeTrace(ctx context.Context, r traceReader) (id queue.ID, err error) {
	if r.PartitionID, err = parsePartition(r.partition); err != nil {
		return id, err
	}
	return h.Traces.Add(ctx, r.Event)
}

// failureJSON is the answer to a failure whose body Queen MQ marks with success.
type failureJSON struct {
	Success bool   `json:"success"`
	Error   string `json:"error"`
}

// MessageTraces serves GET /api/v1/traces/:partitionId/:transactionId.
func (h *Handlers) MessageTraces(c echo.Context) error {
	ref, err := readMessageRef(c)
	if err != nil && queue.CodeOf(err) != queue.CodeNotFound {
		return err
	}
	out := struct {
		Traces []traceJSON `json:"traces"`
	}{[]traceJSON{}}
	if err == nil {
		found, err := h.Traces.OfMessage(c.Request().Context(), ref.partition, ref.transactionID, maxLimit)
		if err != nil {
			return err
		}
		for i := range found {
			out.Traces = append(out.Traces, toTraceJSON(&found[i]))
		}
	}
	return wire.AnswerJSON(c, http.StatusOK, out)
}

// NamedTraces serves GET /api/v1/traces/by-name/:name.
func (h *Handlers) NamedTraces(c echo.Context) error {
	params := wire.Params{Context: c}
	name := params.PathName("name")
	if params.Err != nil {
		return params.Err
	}
	p, err := readPage(c, 100)
	if err != nil {
		return err
	}
	after := trace.Place{CreatedAt: p.at}
	if p.id != "" {
		if after.ID, err = queue.ParseID(p.id); err != nil {
			return errCursor(c.QueryParam("cursor"))
		}
	}
	found, total, err := h.Traces.ByName(c.Request().Context(), name, after, int64(p.limit), int64(p.offset))
	if err != nil {
		return err
	}
	out := struct {
		Traces     []namedTraceJSON `json:"traces"`
		Total      int64            `json:"total"`
		Pagination nextPageJSON     `json:"pagination"`
	}{[]namedTraceJSON{}, total, nextPageJSON{pageJSON: p.json()}}
	for i := range found {
		t := &found[i]
		out.Traces = append(out.Traces, namedTraceJSON{
			toTraceJSON(&t.Trace), orNull(t.TransactionID), t.PartitionID.String(), t.Queue, t.Partition, payloadOrNull(t.Payload),
		})
		out.Pagination = p.next(len(found), t.CreatedAt, t.ID.String())
	}
	return wire.AnswerJSON(c, http.StatusOK, out)
}

// TraceNames serves GET /api/v1/traces/names.
func (h *Handlers) TraceNames(c echo.Context) error {
	p, err := readPage(c, 50)
	if err != nil {
		return err
	}
	names, total, err := h.Traces.Names(c.Request().Context(), int64(p.limit), int64(p.offset))
	if err != nil {
		return err
	}
	out := struct {
		Names      []traceNameJSON `json:"trace_names"`
		Total      int64           `json:"total"`
		Pagination pageJSON        `json:"pagination"`
	}{[]traceNameJSON{}, total, p.json()}
	for _, n := range names {
		out.Names = append(out.Names, traceNameJSON{n.Name, n.Traces, n.Messages, wire.FormatMillis(n.LastSeen)})
	}
	return wire.AnswerJSON(c, http.StatusOK, out)
}
