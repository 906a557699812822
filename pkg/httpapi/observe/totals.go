package observe

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/insight/totals"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Counter counts the messages of all queues and groups; *totals.Counter is one.
type Counter interface {
	Read(ctx context.Context) (*totals.Snapshot, error)
	Fresh(ctx context.Context, maxAge time.Duration) (*totals.Snapshot, error)
	// Expire makes the next Read wait for a later count, within bounds.
	Expire()
}

// Counted returns the latest snapshot of a counter. With fresh=true it waits for one that began after the request.
func Counted(p *wire.Params, counter Counter) (*totals.Snapshot, error) {
	if wire.IsTrue(p.QueryParam("fresh")) {
		return counter.Fresh(p.Ctx(), 0)
	}
	return counter.Read(p.Ctx())
}

func (h *Handlers) counted(p *wire.Params) (*totals.Snapshot, error) { return Counted(p, h.Totals) }

// countedWith is counted for what is known to exist. If it is younger than the latest snapshot, it waits for another one.
func (h *Handlers) countedWith(p *wire.Params, has func(*totals.Snapshot) bool) (*totals.Snapshot, error) {
	s, err := h.counted(p)
	if err == nil && !has(s) {
		s, err = h.Totals.Fresh(p.Ctx(), 0)
	}
	return s, err
}

// orderOf reads the order of a list.
func orderOf(p *wire.Params, orders []totals.Order) totals.Order {
	order := totals.Order(p.QueryParam("sort"))
	if order == "" {
		return totals.ByName
	}
	if !slices.Contains(orders, order) {
		p.Check(queue.Invalidf("sort is %q: it must be one of %s", wire.Clip(string(order)), strings.Trim(fmt.Sprint(orders), "[]")))
	}
	return order
}

// cursorOf returns the cursor after a place in a list; nil: the list has ended.
func cursorOf(key *totals.Key) *string {
	if key == nil {
		return nil
	}
	text := key.String()
	return &text
}

// readPlace reads the cursor of a list; nil: from the first one.
func readPlace(p *wire.Params) *totals.Key {
	if !p.QueryParams().Has("cursor") {
		return nil
	}
	text := p.Text("cursor")
	key, ok := totals.ParseKey(text)
	if !ok {
		p.Check(queue.Invalidf("cursor is %q: use what pagination.next of the page before says", wire.Clip(text)))
	}
	return &key
}

// containing returns a match for names that have a part, in any case.
func containing(part string) func(name string) bool {
	part = strings.ToLower(part)
	return func(name string) bool { return part == "" || strings.Contains(strings.ToLower(name), part) }
}

// ListQueues serves GET /api/v1/queues.
func (h *Handlers) ListQueues(p *wire.Params) (any, error) {
	limit, order, after := readLimit(p, maxQueues), orderOf(p, totals.QueueOrders), readPlace(p)
	named, namespace, task, grants := containing(p.Text("name")), p.Text("namespace"), p.Text("task"), identity.GrantsOf(p.Ctx())
	if p.Err != nil {
		return nil, p.Err
	}
	s, err := h.counted(p)
	if err != nil {
		return nil, err
	}
	found, next := s.ListQueues(func(q *totals.Queue) bool {
		return named(q.Name) && (namespace == "" || q.Namespace == namespace) && (task == "" || q.Task == task) && grants.MayRead(q.Name)
	}, order, after, limit)
	return api.QueuePage{
		CountedAt:  s.At,
		Queues:     wire.Each(found, func(q **totals.Queue) api.CountedQueue { return countedQueue(s, *q) }),
		Pagination: api.Page{Limit: int64(limit), Next: cursorOf(next)},
	}, wire.ReserveRows(p.Ctx(), len(found))
}

func countedQueue(s *totals.Snapshot, q *totals.Queue) api.CountedQueue {
	m := &q.Messages
	return api.CountedQueue{
		ID: q.ID.String(), Name: q.Name, Namespace: q.Namespace, Task: q.Task, CreatedAt: q.CreatedAt, Paused: q.Paused,
		Groups: q.Groups, Partitions: q.Partitions, Messages: api.ListedCounts{Total: m.Total, Pending: m.Pending, Processing: m.Processing, DeadLetter: m.Dead},
		DeadLetters: q.DeadLetters, Failing: q.Failing, OldestSeconds: oldest(s, q.Oldest), Late: q.Late,
	}
}

// oldest returns the age of a message in whole seconds; nil: there is none.
func oldest(s *totals.Snapshot, at time.Time) *int64 {
	if at.IsZero() {
		return nil
	}
	age := seconds(s.Age(at))
	return &age
}

// allCounts returns counts with the messages that are done.
func allCounts(c *totals.Counts) api.Counts {
	return api.Counts{Total: c.Total, Pending: c.Pending, Processing: c.Processing, Completed: c.Total - c.Pending - c.Processing - c.Dead, DeadLetter: c.Dead}
}

// ShowTotals serves GET /api/v1/totals.
func (h *Handlers) ShowTotals(p *wire.Params) (any, error) {
	s, err := h.counted(p)
	if err != nil {
		return nil, err
	}
	grants := identity.GrantsOf(p.Ctx())
	sum := s.Sum(func(q *totals.Queue) bool { return grants.MayRead(q.Name) })
	return api.Totals{
		CountedAt: s.At, Queues: sum.Queues, Groups: sum.Groups, Partitions: sum.Partitions, Messages: allCounts(&sum.Messages),
		DeadLetters: sum.DeadLetters, Failing: sum.Failing, OldestSeconds: oldest(s, sum.Oldest),
	}, nil
}

// ListAllGroups serves GET /api/v1/groups.
func (h *Handlers) ListAllGroups(p *wire.Params) (any, error) {
	limit, order, after := readLimit(p, maxQueues), orderOf(p, totals.GroupOrders), readPlace(p)
	named, inQueue, grants := containing(p.Text("name")), containing(p.Text("queue")), identity.GrantsOf(p.Ctx())
	if p.Err != nil {
		return nil, p.Err
	}
	s, err := h.counted(p)
	if err != nil {
		return nil, err
	}
	found, next := s.ListGroups(func(g *totals.Group) bool { return named(g.Name) && inQueue(g.Queue) && grants.MayRead(g.Queue) }, order, after, limit)
	return api.GroupPage{
		CountedAt: s.At,
		Groups: wire.Each(found, func(g **totals.Group) api.ListedGroup {
			return api.ListedGroup{QueueName: (*g).Queue, QueuePaused: (*g).QueuePaused, GroupFigures: figures(s, *g)}
		}),
		Pagination: api.Page{Limit: int64(limit), Next: cursorOf(next)},
	}, wire.ReserveRows(p.Ctx(), len(found))
}

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
	s, err := h.countedWith(p, func(s *totals.Snapshot) bool { return s.Queue(name) != nil })
	if err != nil {
		return nil, err
	}
	q := s.Queue(name)
	if q == nil {
		return nil, &queue.Error{Code: queue.CodeNotFound, Message: "the queue was deleted a moment ago"}
	}
	groups, next := s.GroupsFrom(name, from.Name, from.After, limit)
	return api.QueueGroups{
		CountedAt: s.At, QueueName: name, Paused: q.Paused, Partitions: q.Partitions, Messages: allCounts(&q.Messages), DeadLetters: q.DeadLetters,
		OldestSeconds: oldest(s, q.Oldest), Groups: wire.Each(groups, func(g *totals.Group) api.GroupFigures { return figures(s, g) }), Pagination: api.Page{Limit: int64(limit), Next: next},
	}, wire.ReserveRows(p.Ctx(), len(groups))
}

// figures describes a group of one queue.
func figures(s *totals.Snapshot, g *totals.Group) api.GroupFigures {
	row := api.GroupFigures{
		Name: g.Name, Paused: g.Paused, CreatedAt: g.CreatedAt, Joining: g.Joining, Partitions: g.Partitions, Lag: g.Lag,
		OldestSeconds: seconds(s.Age(g.Oldest)), Late: g.Late, PartitionsWithLag: g.Lagging, Due: g.Due, Leased: g.Leased, Resting: g.Resting,
		Failing: g.Failing, LeasedMessages: g.Held, DeadLetters: g.DeadLetters, LastConsumedAt: &g.ConsumedAt,
	}
	if g.Mode != queue.SubscribeAll {
		row.SubscriptionMode, row.SubscriptionTimestamp = (*string)(&g.Mode), &g.StartAt
	}
	return row
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
	s, err := h.countedWith(p, func(s *totals.Snapshot) bool { return s.Group(queueName, group) != nil })
	if err != nil {
		return nil, err
	}
	g := s.Group(queueName, group)
	if g == nil {
		return nil, &queue.Error{Code: queue.CodeNotFound, Message: "the group of the queue was deleted a moment ago"}
	}
	figures := figures(s, g)
	figures.Paused = found.Paused // who has paused it sees that at once
	return api.GroupState{
		CountedAt: s.At, QueueName: queueName, QueuePaused: found.QueuePaused, Group: figures,
		Places:    api.Places{Due: h.places(&found.Due, limit), Leased: h.places(&found.Leased, limit), Resting: h.places(&found.Resting, limit)},
		Timestamp: now,
	}, nil
}
