package data

import (
	"context"
	"errors"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/engine/stream"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// streamGroup is the beginning of the name of a query's consumer group. The id of the query follows it.
const streamGroup = "streams."

// Streams stores queries of stream clients and reads their state.
type Streams interface {
	Register(ctx context.Context, q stream.Query, reset bool) (stream.Registered, error)
	// Source returns the source queue of a query.
	Source(ctx context.Context, id queue.ID) (source string, found bool, err error)
	State(ctx context.Context, id, partition queue.ID, f stream.StateFilter) ([]stream.Entry, error)
}

// RegisterQuery serves POST /streams/v1/queries. If the hash of the query has changed, the answer is a
// 409, unless the request has reset.
func (h *Handlers) RegisterQuery(p *wire.Params) (any, error) {
	var q stream.Query
	var reset bool
	fields := map[string]*string{"name": &q.Name, "source_queue": &q.Source, "config_hash": &q.Hash, "sink_queue": &q.Sink}
	err := h.Bodies.ReadObject(p, func(name string, value jsontext.Value) (err error) {
		switch into := fields[name]; {
		case into != nil && value.Kind() != 'n':
			*into, err = streamText(name, value)
		case name == "reset" && value.Kind() != 'n':
			reset, err = wire.Bool(name, value)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"name", "source_queue", "config_hash"} {
		if *fields[name] == "" {
			return nil, queue.Invalidf("%s is required", name)
		}
	}
	if err := wire.MayConsume(p.Ctx(), q.Source, streamGroup); err != nil {
		return nil, err
	}
	if q.Sink != "" {
		if err := wire.MayPush(p.Ctx(), q.Sink); err != nil {
			return nil, err
		}
	}
	done, err := h.Queries.Register(p.Ctx(), q, reset)
	if errors.Is(err, stream.ErrHashMismatch) {
		p.Status = http.StatusConflict
		return api.HashChanged{
			QueryID: done.ID.String(), Name: q.Name,
			Error: "config_hash mismatch: operator chain changed for queryId '" + q.Name + "'. Pass reset:true to delete its state and use the new one",
		}, nil
	}
	return api.Registered{
		Success: true, QueryID: done.ID.String(), Name: q.Name, ConfigHash: q.Hash, Fresh: done.Fresh, Reset: done.Reset,
	}, err
}

// streamText reads a text to which the rules of a name apply.
func streamText(field string, value jsontext.Value) (string, error) {
	text, ok := wire.Text(value)
	if !ok {
		return "", queue.Invalidf("%s must be a string, not %s", field, wire.Clip(string(value)))
	}
	return text, wire.CheckName(field, text)
}

// StreamState serves POST /streams/v1/state/get. A query or partition that does not exist has no state.
func (h *Handlers) StreamState(p *wire.Params) (any, error) {
	var query, partition string
	var filter stream.StateFilter
	err := h.Bodies.ReadObject(p, func(name string, value jsontext.Value) (err error) {
		if value.Kind() == 'n' {
			return nil
		}
		switch name {
		case "query_id":
			query, err = streamText(name, value)
		case "partition_id":
			partition, err = streamText(name, value)
		case "key_prefix":
			filter.Prefix, err = stateKey(name, value)
		case "ripe_at_or_before":
			if filter.RipeBy = number(value); filter.RipeBy == nil {
				err = queue.Invalidf("ripe_at_or_before must be a number of milliseconds since 1970, not %s", wire.Clip(string(value)))
			}
		case "keys":
			var isArray bool
			isArray, err = wire.Elements(value, func(at int, element jsontext.Value) error {
				if at >= queue.MaxOperations {
					return queue.Invalidf("keys has more than %d keys: send several requests", queue.MaxOperations)
				}
				key, err := stateKey("keys", element)
				filter.Keys = append(filter.Keys, key)
				return err
			})
			if err == nil && !isArray {
				err = queue.Invalidf("keys must be an array of strings")
			}
		}
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case query == "":
		return nil, queue.Invalidf("query_id is required")
	case partition == "":
		return nil, queue.Invalidf("partition_id is required")
	}
	id, allowed, err := h.findQuery(p.Ctx(), query, partition)
	var found []stream.Entry
	if err == nil && allowed {
		place, _ := queue.ParseID(partition) // no partition has the zero id
		found, err = h.Queries.State(p.Ctx(), id, place, filter)
	}
	return api.StreamState{Success: true, Rows: wire.Each(found, func(e *stream.Entry) api.StateEntry {
		return api.StateEntry{Key: e.Key, Value: e.Value, UpdatedAt: e.UpdatedAt}
	})}, err
}

// findQuery returns the id of a query. allowed is false if the text is not an id. If the principal has
// grants, allowed is also false if the query or the partition does not exist, or if the grants do not allow
// both queues.
func (h *Handlers) findQuery(ctx context.Context, text, partition string) (id queue.ID, allowed bool, err error) {
	id, err = queue.ParseID(text)
	if err != nil {
		return id, false, nil
	}
	grants := identity.GrantsOf(ctx)
	if grants == nil {
		return id, true, nil
	}
	source, found, err := h.Queries.Source(ctx, id)
	if err != nil {
		return id, false, err
	}
	place, _ := queue.ParseID(partition) // no partition has the zero id
	mayConsume := func(_ int, name string) bool { return grants.MayConsume(name, streamGroup+id.String()) }
	queues, err := h.Owners.QueuesOf(ctx, []queue.ID{place}, mayConsume)
	name, exists := queues[place]
	return id, found && exists && mayConsume(0, source) && mayConsume(0, name), err
}
