package lists

import (
	"time"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/insight/history"
	"github.com/belfry-mq/belfry/pkg/insight/totals"
)

// ListTags serves GET /api/v1/tags. Its cursor consists of two parameters: a namespace and a task.
func (h *Handlers) ListTags(p *wire.Params) (any, error) {
	limit, after := Limit(p, maxTags), api.TagPair{Namespace: p.Text("afterNamespace"), Task: p.Text("afterTask")}
	if p.Err != nil {
		return nil, p.Err
	}
	tags, err := h.Tags.TagPairs(p.Ctx(), after, limit)
	page := api.TagPage{Limit: int64(limit)}
	if len(tags) == limit {
		page.Next = &api.TagCursor{AfterNamespace: tags[limit-1].Namespace, AfterTask: tags[limit-1].Task}
	}
	return api.Tags{Tags: tags, Pagination: page}, err
}

// ListNamespaces serves GET /api/v1/totals/namespaces.
func (h *Handlers) ListNamespaces(p *wire.Params) (any, error) {
	return h.countTags(p, func(q *totals.Queue) string { return q.Namespace })
}

// ListTasks serves GET /api/v1/totals/tasks.
func (h *Handlers) ListTasks(p *wire.Params) (any, error) {
	return h.countTags(p, func(q *totals.Queue) string { return q.Task })
}

// countTags lists the tags of the queues that the caller may see, with their totals and rates.
func (h *Handlers) countTags(p *wire.Params, tagOf func(*totals.Queue) string) (any, error) {
	limit, order, after := Limit(p, maxTags), orderOf(p, totals.TagOrders), readPlace(p)
	part, grants := p.Text("name"), identity.GrantsOf(p.Ctx())
	if p.Err != nil {
		return nil, p.Err
	}
	s, err := Counted(p, h.Totals)
	if err != nil {
		return nil, err
	}
	recent, err := h.History.Recent(p.Ctx())
	if err != nil {
		return nil, err
	}
	rates := map[string]history.Recent{}
	for name, one := range recent {
		if q := s.Queue(name); q != nil && grants.MayRead(name) {
			all := rates[tagOf(q)]
			rates[tagOf(q)] = history.Recent{Pushed: all.Pushed + one.Pushed, Delivered: all.Delivered + one.Delivered, Failed: all.Failed + one.Failed}
		}
	}
	readable := func(q *totals.Queue) string {
		if !grants.MayRead(q.Name) {
			return ""
		}
		return tagOf(q)
	}
	found, next := s.ListTags(readable, part, order, after, limit)
	return api.TagTotals{
		CountedAt: s.At, Pagination: api.Page{Limit: int64(limit), Next: cursorOf(next)},
		Tags: wire.Each(found, func(t **totals.Tag) api.CountedTag { return countedTag(s, *t, rates[(*t).Name]) }),
	}, wire.ReserveRows(p.Ctx(), len(found))
}

func countedTag(s *totals.Snapshot, t *totals.Tag, recent history.Recent) api.CountedTag {
	m := &t.Messages
	return api.CountedTag{
		Name: t.Name, Queues: t.Queues, Groups: t.Groups, Partitions: t.Partitions,
		Messages:    api.ListedCounts{Total: m.Total, Pending: m.Pending, Processing: m.Processing, DeadLetter: m.Dead},
		DeadLetters: t.DeadLetters, Late: t.Late, Failing: t.Failing, OldestSeconds: Oldest(s, t.Oldest), PushedPerSecond: perSecond(recent.Pushed),
		DeliveredPerSecond: perSecond(recent.Delivered), FailedLastHour: recent.Failed,
	}
}

// perSecond returns the rate of a minute.
func perSecond(n int64) float64 { return wire.Rounded(float64(n) / time.Minute.Seconds()) }
