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
	var found []trace.Trace
	if err == nil {
		found, err = h.Traces.OfMessage(c.Request().Context(), ref.partition, ref.transactionID, maxLimit)
		if err != nil {
			return err
		}
	}
	return wire.AnswerJSON(c, http.StatusOK, map[string][]traceJSON{"traces": each(found, toTraceJSON)})
}

// NamedTraces serves GET /api/v1/traces/by-name/:name.
func (h *Handlers) NamedTraces(c echo.Context) error {
	p := &wire.Params{Context: c}
	name, page := p.PathName("name"), readPage(p, 100)
	after := trace.Position{CreatedAt: page.at}
	if page.id != "" {
		id, err := queue.ParseID(page.id)
		if err != nil {
			p.Check(errCursor(c.QueryParam("cursor")))
		}
		after.ID = id
	}
	if p.Err != nil {
		return p.Err
	}
	found, total, err := h.Traces.ByName(c.Request().Context(), name, after, int64(page.limit), int64(page.offset))
	if err != nil {
		return err
	}
	next := nextPageJSON{pageJSON: page.json()}
	if n := len(found); n > 0 {
		next = page.next(n, found[n-1].CreatedAt, found[n-1].ID.String())
	}
	return wire.AnswerJSON(c, http.StatusOK, struct {
		Traces     []namedTraceJSON `json:"traces"`
		Total      int64            `json:"total"`
		Pagination nextPageJSON     `json:"pagination"`
	}{each(found, toNamedTraceJSON), total, next})
}

func toNamedTraceJSON(t *trace.NamedTrace) namedTraceJSON {
	return namedTraceJSON{
		toTraceJSON(&t.Trace), orNull(t.TransactionID), t.PartitionID.String(), t.Queue, t.Partition, payloadOrNull(t.Payload),
	}
}

// TraceNames serves GET /api/v1/traces/names.
func (h *Handlers) TraceNames(c echo.Context) error {
	p := &wire.Params{Context: c}
	page := readPage(p, 50)
	if p.Err != nil {
		return p.Err
	}
	names, total, err := h.Traces.Names(c.Request().Context(), int64(page.limit), int64(page.offset))
	if err != nil {
		return err
	}
	return wire.AnswerJSON(c, http.StatusOK, struct {
		Names      []traceNameJSON `json:"trace_names"`
		Total      int64           `json:"total"`
		Pagination pageJSON        `json:"pagination"`
	}{each(names, func(n *trace.NameCount) traceNameJSON {
		return traceNameJSON{n.Name, n.Traces, n.Messages, wire.FormatMillis(n.LastSeen)}
	}), total, page.json()})
}
