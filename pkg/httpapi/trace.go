package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/pkg/trace"
)

// Traces stores and lists what consumers note about messages.
type Traces interface {
	Add(ctx context.Context, e trace.Event) (queue.ID, error)
	OfMessage(ctx context.Context, partition queue.ID, transactionID string, limit int64) ([]trace.Trace, error)
	ByName(ctx context.Context, name string, after trace.Position, limit, offset int64) ([]trace.NamedTrace, int64, error)
	Names(ctx context.Context, limit, offset int64) ([]trace.NameCount, int64, error)
}

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

type namedJSON struct {
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

func toTrace(t *trace.Trace) traceJSON {
	names := t.Names
	if names == nil {
		names = []string{}
	}
	return traceJSON{t.ID.String(), t.Type, t.Data, t.Group, t.Worker, formatMillis(t.CreatedAt), names}
}

// rawTrace is a trace as it is being read.
type rawTrace struct {
	trace.Event
	partition                             string
	hasTransaction, hasPartition, hasData bool
}

func (r *rawTrace) member(name string, value jsontext.Value) error {
	switch name {
	case "transactionId":
		r.TransactionID, r.hasTransaction = text(value)
	case "partitionId":
		r.partition, r.hasPartition = text(value)
	case "consumerGroup":
		r.Group = groupOf(value)
		return checkName("consumerGroup", r.Group)
	case "eventType":
		if event, ok := text(value); ok && event != "" {
			r.Type = event
			return checkName("eventType", event)
		}
	case "data":
		r.Data, r.hasData = json.RawMessage(value.Clone()), value.Kind() != 'n'
	case "traceNames":
		return r.names(value)
	}
	return nil
}

func (r *rawTrace) names(value jsontext.Value) error {
	r.Names = nil
	add := func(value jsontext.Value) error {
		name, ok := text(value)
		if !ok {
			return queue.Invalidf("traceNames must hold strings, not %s", clip(string(value)))
		}
		if name != "" && !slices.Contains(r.Names, name) {
			r.Names = append(r.Names, name)
		}
		if len(r.Names) > maxTraceNames {
			return queue.Invalidf("traceNames has more than %d names", maxTraceNames)
		}
		return checkName("a name of traceNames", name)
	}
	switch value.Kind() {
	case 'n':
		return nil
	case '"':
		return add(value)
	case '[':
		_, err := elements(value, add)
		return err
	default:
		return queue.Invalidf("traceNames must be a string or an array of strings, not %s", clip(string(value)))
	}
}

// addTrace serves POST /api/v1/traces (section 7.6).
func (s *Server) addTrace(c echo.Context) error {
	body, err := s.readBody(c)
	if err != nil {
		return err
	}
	r := rawTrace{Event: trace.Event{Group: queue.NoGroup, Type: "info"}}
	if err := object(body, r.member); err != nil {
		return err
	}
	switch {
	case !r.hasTransaction || !r.hasPartition || r.TransactionID == "" || r.partition == "":
		return queue.Invalidf("transactionId and partitionId are required")
	case !r.hasData:
		return queue.Invalidf("data is required")
	}
	r.TransactionID = withoutNUL(r.TransactionID)
	id, err := queue.ID{}, error(nil)
	if r.PartitionID, err = queue.ParseID(r.partition); err != nil {
		err = &queue.Error{Code: queue.CodeNotFound, Message: messageNotFound}
	} else {
		id, err = s.deps.Traces.Add(c.Request().Context(), r.Event)
	}
	switch queue.CodeOf(err) {
	case "":
		return answerValue(c, http.StatusCreated, struct {
			Success bool   `json:"success"`
			TraceID string `json:"traceId"`
		}{true, id.String()})
	case queue.CodeNotFound:
		return answerValue(c, http.StatusNotFound, struct {
			Success bool   `json:"success"`
			Error   string `json:"error"`
		}{false, err.Error()})
	default:
		return err
	}
}

// messageTraces serves GET /api/v1/traces/:partitionId/:transactionId.
func (s *Server) messageTraces(c echo.Context) error {
	partition, _, transaction, err := messagePath(c)
	if err != nil && queue.CodeOf(err) != queue.CodeNotFound {
		return err
	}
	out := struct {
		Traces []traceJSON `json:"traces"`
	}{[]traceJSON{}}
	if err == nil {
		found, err := s.deps.Traces.OfMessage(c.Request().Context(), partition, transaction, maxLimit)
		if err != nil {
			return err
		}
		for i := range found {
			out.Traces = append(out.Traces, toTrace(&found[i]))
		}
	}
	return answerValue(c, http.StatusOK, out)
}

// namedTraces serves GET /api/v1/traces/by-name/:name.
func (s *Server) namedTraces(c echo.Context) error {
	name, err := pathName(c, "name")
	if err != nil {
		return err
	}
	p, err := pageOf(c, 100)
	if err != nil {
		return err
	}
	after := trace.Position{CreatedAt: p.at}
	if p.id != "" {
		if after.ID, err = queue.ParseID(p.id); err != nil {
			return errCursor(c.QueryParam("cursor"))
		}
	}
	found, total, err := s.deps.Traces.ByName(c.Request().Context(), name, after, int64(p.limit), int64(p.offset))
	if err != nil {
		return err
	}
	out := struct {
		Traces     []namedJSON  `json:"traces"`
		Total      int64        `json:"total"`
		Pagination nextPageJSON `json:"pagination"`
	}{[]namedJSON{}, total, nextPageJSON{pageJSON: pageJSON{p.limit, p.offset}}}
	for i := range found {
		t := &found[i]
		out.Traces = append(out.Traces, namedJSON{
			toTrace(&t.Trace), textOrNull(t.TransactionID), t.PartitionID.String(), t.Queue, t.Partition, payloadOrNull(t.Payload),
		})
		out.Pagination = p.told(len(found), t.CreatedAt, t.ID.String())
	}
	return answerValue(c, http.StatusOK, out)
}

// traceNames serves GET /api/v1/traces/names.
func (s *Server) traceNames(c echo.Context) error {
	p, err := pageOf(c, 50)
	if err != nil {
		return err
	}
	names, total, err := s.deps.Traces.Names(c.Request().Context(), int64(p.limit), int64(p.offset))
	if err != nil {
		return err
	}
	out := struct {
		Names      []traceNameJSON `json:"trace_names"`
		Total      int64           `json:"total"`
		Pagination pageJSON        `json:"pagination"`
	}{[]traceNameJSON{}, total, pageJSON{p.limit, p.offset}}
	for _, n := range names {
		out.Names = append(out.Names, traceNameJSON{n.Name, n.Traces, n.Messages, formatMillis(n.LastSeen)})
	}
	return answerValue(c, http.StatusOK, out)
}
