package flow

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/engine/limit"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
)

// shownGroups is how many groups a page has by default, and mostGroups the largest number.
const shownGroups, mostGroups = 100, 200

// Limits reads and changes limits. *limit.Store implements it.
type Limits interface {
	Get(ctx context.Context, of limit.Of) (limit.State, error)
	List(ctx context.Context, queueName, after string, limit int) ([]limit.Group, error)
	Set(ctx context.Context, of limit.Of, to json.RawMessage, dryRun bool, checks ...limit.Check) (limit.Change, error)
}

// Handlers has one method for each route.
type Handlers struct {
	Limits Limits
	Bodies wire.BodyReader
}

// ShowGroup serves GET /api/v1/consumer-groups/:group/queues/:queue/limits.
func (h *Handlers) ShowGroup(p *wire.Params) (any, error) {
	of := limit.Of{Queue: p.PathName("queue"), Group: p.PathName("group")}
	p.Check(wire.MayRead(p.Ctx(), of.Queue))
	if p.Err != nil {
		return nil, p.Err
	}
	state, err := h.Limits.Get(p.Ctx(), of)
	if err != nil {
		return nil, err
	}
	answer := api.GroupLimits{
		Queue: of.Queue, ConsumerGroup: of.Group, ChangedAt: wire.OrNull(state.ChangedAt),
		Use: api.LimitUse{LiveLeases: state.Live, Tokens: state.Tokens, LimitedUntil: wire.OrNull(state.LimitedUntil)},
	}
	if state.Limits != nil {
		source := "queue"
		if state.Own {
			source = "group"
		}
		answer.Source = &source
	}
	answer.Limits, err = read(state.Limits)
	return answer, err
}

// ShowQueue serves GET /api/v1/resources/queues/:queue/limits.
func (h *Handlers) ShowQueue(p *wire.Params) (any, error) {
	name, cursor := p.PathName("queue"), p.Text("cursor")
	p.Check(wire.MayRead(p.Ctx(), name))
	if p.Err != nil {
		return nil, p.Err
	}
	state, err := h.Limits.Get(p.Ctx(), limit.Of{Queue: name})
	if err != nil {
		return nil, err
	}
	most := wire.Clamp(1, wire.LeadingInt(p.QueryParam("limit"), shownGroups), mostGroups)
	groups, err := h.Limits.List(p.Ctx(), name, cursor, most+1)
	if err != nil {
		return nil, err
	}
	answer := api.QueueLimits{Queue: name, ChangedAt: wire.OrNull(state.ChangedAt), Groups: []api.OwnLimits{}, Pagination: api.Page{Limit: int64(most)}}
	if len(groups) > most {
		groups = groups[:most]
		answer.Pagination.Next = &groups[most-1].Name
	}
	for _, g := range groups {
		own, err := read(g.Limits)
		if err != nil {
			return nil, err
		}
		answer.Groups = append(answer.Groups, api.OwnLimits{ConsumerGroup: g.Name, Limits: *own})
	}
	answer.Limits, err = read(state.Limits)
	return answer, err
}

// SetGroup serves PUT /api/v1/consumer-groups/:group/queues/:queue/limits.
func (h *Handlers) SetGroup(p *wire.Params) (any, error) { return h.set(p, ofGroup(p)) }

// SetQueue serves PUT /api/v1/resources/queues/:queue/limits.
func (h *Handlers) SetQueue(p *wire.Params) (any, error) { return h.set(p, ofQueue(p)) }

// RemoveGroup serves DELETE /api/v1/consumer-groups/:group/queues/:queue/limits.
func (h *Handlers) RemoveGroup(p *wire.Params) (any, error) {
	return h.change(p, ofGroup(p), nil)
}

// RemoveQueue serves DELETE /api/v1/resources/queues/:queue/limits.
func (h *Handlers) RemoveQueue(p *wire.Params) (any, error) {
	return h.change(p, ofQueue(p), nil)
}

// ofGroup returns the group in the path, if the caller may change its limits.
func ofGroup(p *wire.Params) limit.Of {
	of := limit.Of{Queue: p.PathName("queue"), Group: p.PathName("group")}
	p.Check(wire.MayConsume(p.Ctx(), of.Queue, of.Group))
	return of
}

// ofQueue returns the queue in the path, if the caller may change its default limits.
func ofQueue(p *wire.Params) limit.Of {
	of := limit.Of{Queue: p.PathName("queue")}
	p.Check(wire.MayAdminister(p.Ctx(), of.Queue))
	return of
}

// set reads the body, and changes limits. The database checks the limits.
func (h *Handlers) set(p *wire.Params, of limit.Of) (any, error) {
	if p.Err != nil {
		return nil, p.Err
	}
	members := map[string]json.RawMessage{}
	err := h.Bodies.ReadObject(p, func(name string, value jsontext.Value) error {
		members[name] = json.RawMessage(value.Clone())
		return nil
	})
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(members)
	if err != nil {
		return nil, fmt.Errorf("encoding a body: %w", err)
	}
	return h.change(p, of, body)
}

// change sets limits, or removes them if to is nil.
func (h *Handlers) change(p *wire.Params, of limit.Of, to json.RawMessage) (any, error) {
	if p.Err != nil {
		return nil, p.Err
	}
	dryRun := wire.IsTrue(p.QueryParam("dryRun"))
	if !dryRun {
		parameters := audit.Parameters{}
		if to != nil {
			parameters["limits"] = to
		}
		audit.Begin(p.Ctx(), audit.Target{Queue: of.Queue, Group: of.Group}, parameters)
	}
	done, err := h.Limits.Set(p.Ctx(), of, to, dryRun)
	if err != nil {
		return nil, err
	}
	answer := api.LimitsSet{Success: true, Queue: of.Queue, ConsumerGroup: wire.OrNull(of.Group), Changed: done.Changed, DryRun: dryRun}
	if answer.Before, err = read(done.Before); err != nil {
		return nil, err
	}
	answer.Limits, err = read(done.After)
	return answer, err
}

// read reads the JSON of limits. It returns nil for nil.
func read(text json.RawMessage) (*api.Limits, error) {
	if text == nil {
		return nil, nil //nolint:nilnil // no limits are not an error
	}
	limits := &api.Limits{}
	if err := json.Unmarshal(text, limits); err != nil {
		return nil, fmt.Errorf("reading limits: %w", err)
	}
	return limits, nil
}
