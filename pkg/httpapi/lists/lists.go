package lists

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/insight/history"
	"github.com/belfry-mq/belfry/pkg/insight/totals"
	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// shortList is the default limit of a list. maxQueues and maxTags are the largest limits.
	shortList = 50
	maxQueues = 1000
	maxTags   = 1000
)

// Limit reads the limit of a list.
func Limit(p *wire.Params, most int) int {
	return wire.Clamp(1, wire.LeadingInt(p.QueryParam("limit"), shortList), most)
}

// Counter counts the messages of all queues and groups; *totals.Counter is one.
type Counter interface {
	Read(ctx context.Context) (*totals.Snapshot, error)
	Fresh(ctx context.Context, maxAge time.Duration) (*totals.Snapshot, error)
	// Latest returns the last snapshot without a wait, or nil.
	Latest() *totals.Snapshot
	// Expire makes the next Read wait for a later count, within bounds.
	Expire()
}

// Counted returns the latest snapshot. With fresh=true it waits for one that began after the request.
func Counted(p *wire.Params, counter Counter) (*totals.Snapshot, error) {
	if wire.IsTrue(p.QueryParam("fresh")) {
		return counter.Fresh(p.Ctx(), 0)
	}
	return counter.Read(p.Ctx())
}

// CountedWith is Counted for what is known to exist. If it is younger than the latest snapshot, it waits for another one.
func CountedWith(p *wire.Params, counter Counter, has func(*totals.Snapshot) bool) (*totals.Snapshot, error) {
	s, err := Counted(p, counter)
	if err == nil && !has(s) {
		s, err = counter.Fresh(p.Ctx(), 0)
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

// containing returns a match for names that have a part, in any case. No character of the part has a special meaning.
func containing(part string) func(name string) bool {
	part = strings.ToLower(part)
	return func(name string) bool { return part == "" || strings.Contains(strings.ToLower(name), part) }
}

// closeness returns the rank of a name in a search without another order: first the name itself, then the names that begin with the
// part, then the others.
func closeness(part string) func(name string) int64 {
	if part == "" {
		return func(string) int64 { return 0 }
	}
	lower := strings.ToLower(part)
	return func(name string) int64 {
		switch {
		case name == part:
			return 2
		case strings.HasPrefix(strings.ToLower(name), lower):
			return 1
		}
		return 0
	}
}

// byFailed is the order of queues by the failed acknowledgments of the last hour. They come from the history.
const byFailed totals.Order = "failed"

// ListQueues serves GET /api/v1/queues.
func (h *Handlers) ListQueues(p *wire.Params) (any, error) {
	limit, order, after := Limit(p, maxQueues), orderOf(p, append([]totals.Order{byFailed}, totals.QueueOrders...)), readPlace(p)
	part, namespace, task, grants := p.Text("name"), p.Text("namespace"), p.Text("task"), identity.GrantsOf(p.Ctx())
	if p.Err != nil {
		return nil, p.Err
	}
	s, err := Counted(p, h.Totals)
	if err != nil {
		return nil, err
	}
	var recent map[string]history.Recent
	if order == byFailed {
		if recent, err = h.History.Recent(p.Ctx()); err != nil {
			return nil, err
		}
	}
	named, closely := containing(part), closeness(part)
	found, next := s.RankQueues(func(q *totals.Queue) bool {
		return named(q.Name) && (namespace == "" || q.Namespace == namespace) && (task == "" || q.Task == task) && grants.MayRead(q.Name)
	}, func(q *totals.Queue) int64 {
		switch order {
		case totals.ByName:
			return closely(q.Name)
		case byFailed:
			return recent[q.Name].Failed
		default:
			return q.Rank(order)
		}
	}, after, limit)
	return api.QueuePage{
		CountedAt: s.At,
		Queues: wire.Each(found, func(q **totals.Queue) api.CountedQueue {
			one := countedQueue(s, *q)
			if failed := recent[(*q).Name].Failed; order == byFailed {
				one.FailedLastHour = &failed
			}
			return one
		}),
		Pagination: api.Page{Limit: int64(limit), Next: cursorOf(next)},
	}, wire.ReserveRows(p.Ctx(), len(found))
}

func countedQueue(s *totals.Snapshot, q *totals.Queue) api.CountedQueue {
	m := &q.Messages
	return api.CountedQueue{
		ID: q.ID.String(), Name: q.Name, Namespace: q.Namespace, Task: q.Task, CreatedAt: q.CreatedAt, Paused: q.Paused,
		Groups: q.Groups, Partitions: q.Partitions, Messages: api.ListedCounts{Total: m.Total, Pending: m.Pending, Processing: m.Processing, DeadLetter: m.Dead},
		DeadLetters: q.DeadLetters, Failing: q.Failing, OldestSeconds: Oldest(s, q.Oldest), Late: q.Late,
	}
}

// Oldest returns the age of a message in whole seconds; nil: there is none.
func Oldest(s *totals.Snapshot, at time.Time) *int64 {
	if at.IsZero() {
		return nil
	}
	age := wire.Seconds(s.Age(at))
	return &age
}

// AllCounts returns counts with the messages that are done.
func AllCounts(c *totals.Counts) api.Counts {
	return api.Counts{Total: c.Total, Pending: c.Pending, Processing: c.Processing, Completed: c.Total - c.Pending - c.Processing - c.Dead, DeadLetter: c.Dead}
}

// ShowTotals serves GET /api/v1/totals.
func (h *Handlers) ShowTotals(p *wire.Params) (any, error) {
	s, err := Counted(p, h.Totals)
	if err != nil {
		return nil, err
	}
	grants := identity.GrantsOf(p.Ctx())
	sum := s.Sum(func(q *totals.Queue) bool { return grants.MayRead(q.Name) })
	return api.Totals{
		CountedAt: s.At, Queues: sum.Queues, Groups: sum.Groups, Partitions: sum.Partitions, Messages: AllCounts(&sum.Messages),
		DeadLetters: sum.DeadLetters, Failing: sum.Failing, OldestSeconds: Oldest(s, sum.Oldest),
	}, nil
}

// ListAllGroups serves GET /api/v1/groups. With served=true it says which instances serve each group, and how fast.
func (h *Handlers) ListAllGroups(p *wire.Params) (any, error) {
	limit, order, after := Limit(p, maxQueues), orderOf(p, totals.GroupOrders), readPlace(p)
	part, inQueue, grants := p.Text("name"), containing(p.Text("queue")), identity.GrantsOf(p.Ctx())
	if p.Err != nil {
		return nil, p.Err
	}
	s, err := Counted(p, h.Totals)
	if err != nil {
		return nil, err
	}
	named, closely := containing(part), closeness(part)
	found, next := s.RankGroups(func(g *totals.Group) bool { return named(g.Name) && inQueue(g.Queue) && grants.MayRead(g.Queue) },
		func(g *totals.Group) int64 {
			if order == totals.ByName {
				return closely(g.Name)
			}
			return g.Rank(order)
		}, after, limit)
	rows := wire.Each(found, func(g **totals.Group) api.ListedGroup {
		return api.ListedGroup{QueueName: (*g).Queue, QueuePaused: (*g).QueuePaused, GroupFigures: Figures(s, *g)}
	})
	if wire.IsTrue(p.QueryParam("served")) {
		if err := h.serve(p, found, rows); err != nil {
			return nil, err
		}
	}
	return api.GroupPage{CountedAt: s.At, Groups: rows, Pagination: api.Page{Limit: int64(limit), Next: cursorOf(next)}}, wire.ReserveRows(p.Ctx(), len(found))
}

// serve says in each row which instances serve the group. A token with grants does not see the names of instances.
func (h *Handlers) serve(p *wire.Params, found []*totals.Group, rows []api.ListedGroup) error {
	served, err := h.History.Served(p.Ctx(), wire.Each(found, func(g **totals.Group) history.GroupOf { return history.GroupOf{Queue: (*g).Queue, Group: (*g).Name} }))
	if err != nil {
		return err
	}
	limited := identity.GrantsOf(p.Ctx()) != nil
	for i, g := range found {
		one := served[history.GroupOf{Queue: g.Queue, Group: g.Name}]
		rows[i].Served = &api.Served{DeliveredPerSecond: perSecond(one.Delivered), Instances: []api.ServingInstance{}}
		if !limited {
			rows[i].Served.Instances = wire.Each(one.By, func(by *history.Server) api.ServingInstance {
				return api.ServingInstance{Hostname: by.Hostname, PID: by.PID, Waiting: by.Waiting}
			})
		}
	}
	return nil
}

// Figures describes a group of one queue.
func Figures(s *totals.Snapshot, g *totals.Group) api.GroupFigures {
	row := api.GroupFigures{
		Name: g.Name, Paused: g.Paused, CreatedAt: g.CreatedAt, Joining: g.Joining, Partitions: g.Partitions, Lag: g.Lag,
		OldestSeconds: wire.Seconds(s.Age(g.Oldest)), Late: g.Late, PartitionsWithLag: g.Lagging, Due: g.Due, Leased: g.Leased, Resting: g.Resting,
		Failing: g.Failing, LeasedMessages: g.Held, DeadLetters: g.DeadLetters, LastConsumedAt: &g.ConsumedAt,
	}
	if g.Mode != queue.SubscribeAll {
		row.SubscriptionMode, row.SubscriptionTimestamp = (*string)(&g.Mode), &g.StartAt
	}
	return row
}
