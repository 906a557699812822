package observe

import (
	"time"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/httpapi/lists"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/insight/totals"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// GroupsOfQueue serves GET /api/v1/resources/queues/:queue/groups.
func (h *Handlers) GroupsOfQueue(p *wire.Params) (any, error) {
	name := p.PathName("queue")
	p.Check(wire.MayRead(p.Ctx(), name))
	from, limit := startOf(p), limitOf(p)
	if p.Err != nil {
		return nil, p.Err
	}
	if err := h.Queues.Exists(p.Ctx(), name); err != nil {
		return nil, err
	}
	s, err := lists.CountedWith(p, h.Totals, func(s *totals.Snapshot) bool { return s.Queue(name) != nil })
	if err != nil {
		return nil, err
	}
	q := s.Queue(name)
	if q == nil {
		return nil, &queue.Error{Code: queue.CodeNotFound, Message: "the queue was deleted a moment ago"}
	}
	groups, next := s.GroupsFrom(name, from.Name, from.After, limit)
	return api.QueueGroups{
		CountedAt: s.At, QueueName: name, Paused: q.Paused, Partitions: q.Partitions, Messages: lists.AllCounts(&q.Messages), DeadLetters: q.DeadLetters,
		OldestSeconds: lists.Oldest(s, q.Oldest), Groups: wire.Each(groups, func(g *totals.Group) api.GroupFigures { return lists.Figures(s, g) }), Pagination: api.Page{Limit: int64(limit), Next: next},
	}, wire.ReserveRows(p.Ctx(), len(groups))
}

// ShowGroupOfQueue serves GET /api/v1/consumer-groups/:group/queues/:queue.
func (h *Handlers) ShowGroupOfQueue(p *wire.Params) (any, error) {
	queueName, group, err := names(p)
	if err != nil {
		return nil, err
	}
	limit := limitOf(p)
	found, err := h.Progress.Beginnings(p.Ctx(), queueName, group, limit)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	s, err := lists.CountedWith(p, h.Totals, func(s *totals.Snapshot) bool { return s.Group(queueName, group) != nil })
	if err != nil {
		return nil, err
	}
	g := s.Group(queueName, group)
	if g == nil {
		return nil, &queue.Error{Code: queue.CodeNotFound, Message: "the group of the queue was deleted a moment ago"}
	}
	figures := lists.Figures(s, g)
	figures.Paused = found.Paused // who has paused it sees that at once
	return api.GroupState{
		CountedAt: s.At, QueueName: queueName, QueuePaused: found.QueuePaused, Group: figures,
		Places:    api.Places{Due: h.places(&found.Due, limit), Leased: h.places(&found.Leased, limit), Resting: h.places(&found.Resting, limit)},
		Timestamp: now,
	}, nil
}

// ShowScale serves GET /api/v1/scale/:queue/:group. Autoscalers read it. They must be able to start the first consumer of a group, so
// a group that does not exist counts as one that starts at the first message.
func (h *Handlers) ShowScale(p *wire.Params) (any, error) {
	queueName, group, err := names(p)
	if err != nil {
		return nil, err
	}
	if err := h.Queues.Exists(p.Ctx(), queueName); err != nil {
		return nil, err
	}
	s, err := lists.CountedWith(p, h.Totals, func(s *totals.Snapshot) bool { return s.Queue(queueName) != nil })
	if err != nil {
		return nil, err
	}
	q, g := s.Queue(queueName), s.Group(queueName, group)
	switch {
	case q == nil:
		return nil, &queue.Error{Code: queue.CodeNotFound, Message: "the queue was deleted a moment ago"}
	case g == nil:
		return api.Scale{Pending: q.Messages.Total, LagSeconds: wire.Seconds(s.Age(q.Oldest))}, nil
	case g.Joining: // partitions without a cursor are not in the lag
		return api.Scale{Pending: max(g.Lag, q.Backlog()), LagSeconds: wire.Seconds(s.Age(q.Oldest))}, nil
	case g.Due+g.Leased == 0:
		return api.Scale{}, nil // a consumer would receive nothing
	}
	return api.Scale{Pending: g.Lag, LagSeconds: wire.Seconds(s.Age(g.OldestDue))}, nil
}
