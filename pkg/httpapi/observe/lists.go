package observe

import (
	"strconv"
	"strings"
	"time"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/insight/problem"
	"github.com/belfry-mq/belfry/pkg/insight/stats"
	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// shortList is the limit of a list without one. maxQueues, maxTags and problem.MaxListed are the largest ones.
	shortList = 50
	maxQueues = 100
	maxTags   = 1000
)

func readLimit(p *wire.Params, most int) int {
	return wire.Clamp(1, wire.LeadingInt(p.QueryParam("limit"), shortList), most)
}

// ListQueues serves GET /api/v1/queues.
func (h *Handlers) ListQueues(p *wire.Params) (any, error) {
	filter := stats.QueuePageFilter{
		Name: p.Text("name"), Namespace: p.Text("namespace"), Task: p.Text("task"), Limit: readLimit(p, maxQueues), Allowed: readable(p),
		LateAfter: h.LateAfter,
	}
	if p.QueryParams().Has("cursor") {
		after := p.Text("cursor")
		filter.After = &after
	}
	if p.Err != nil {
		return nil, p.Err
	}
	page, err := h.Queues.QueuePage(p.Ctx(), filter)
	return api.QueuePage{Queues: wire.Each(page.Queues, countedQueue), Pagination: api.Page{Limit: int64(filter.Limit), Next: page.Next}}, err
}

func countedQueue(q *stats.PagedQueue) api.CountedQueue {
	return api.CountedQueue{
		ID: q.ID.String(), Name: q.Name, Namespace: q.Namespace, Task: q.Task, CreatedAt: q.CreatedAt, Paused: q.Paused,
		Groups: q.Groups, Partitions: q.Partitions, Messages: listedCounts(q.Counts), CountsAreLowerBounds: !q.Complete,
		OldestSeconds: secondsOrNull(q.Oldest), Late: q.Late,
	}
}

// secondsOrNull returns whole seconds, or nil for zero.
func secondsOrNull(d time.Duration) *int64 {
	if d == 0 {
		return nil
	}
	n := int64(d / time.Second)
	return &n
}

// ListTags serves GET /api/v1/tags. Its cursor is a namespace and a task, as two parameters.
func (h *Handlers) ListTags(p *wire.Params) (any, error) {
	limit, after := readLimit(p, maxTags), api.TagPair{Namespace: p.Text("afterNamespace"), Task: p.Text("afterTask")}
	if p.Err != nil {
		return nil, p.Err
	}
	tags, err := h.Queues.TagPairs(p.Ctx(), after, limit)
	page := api.TagPage{Limit: int64(limit)}
	if len(tags) == limit {
		page.Next = &api.TagCursor{AfterNamespace: tags[limit-1].Namespace, AfterTask: tags[limit-1].Task}
	}
	return api.Tags{Tags: tags, Pagination: page}, err
}

// ListProblems serves GET /api/v1/problems.
func (h *Handlers) ListProblems(p *wire.Params) (any, error) {
	limit, from := readLimit(p, problem.MaxListed), readPosition(p)
	if p.Err != nil {
		return nil, p.Err
	}
	found, err := h.Problems.Find(p.Ctx(), from, limit, readable(p))
	if err != nil {
		return nil, err
	}
	return api.Problems{
		Problems: wire.Each(found.Problems, problemRow), Found: int64(found.Total), Examined: int64(found.Examined),
		Pagination: api.Page{Limit: int64(limit), Next: positionCursor(found.Next)},
	}, nil
}

func problemRow(f *problem.Problem) api.Problem {
	return api.Problem{
		Kind: string(f.Kind), Urgent: f.Urgent, Queue: wire.OrNull(f.Queue), ConsumerGroup: wire.OrNull(f.Group), Partition: partitionOf(f),
		AgeSeconds: secondsOrNull(f.Age), Messages: f.Messages, MessagesAreLowerBound: !f.Complete, Deliveries: f.Deliveries,
		Failures: f.Failures, RetryInSeconds: secondsOrNull(f.RetryIn), Session: wire.OrNull(f.Session),
	}
}

// partitionOf returns nil for a problem that is of no partition. The name of a partition may be empty.
func partitionOf(f *problem.Problem) *string {
	if f.Kind == problem.StuckHead || f.Kind == problem.PausedPartition {
		return &f.Partition
	}
	return nil
}

// positionCursor returns the text of a position, or nil without one.
func positionCursor(next *problem.Position) *string {
	if next == nil {
		return nil
	}
	text := "queues_"
	if next.Groups {
		text = "groups_"
	}
	text += strconv.FormatInt(next.After, 10)
	return &text
}

// readPosition returns the position that the cursor says.
func readPosition(p *wire.Params) (from problem.Position) {
	text := p.QueryParam("cursor")
	if text == "" {
		return from
	}
	kind, id, _ := strings.Cut(text, "_")
	after, err := strconv.ParseInt(id, 10, 64)
	if err != nil || after < 0 || kind != "queues" && kind != "groups" {
		p.Check(queue.Invalidf("cursor is %q: use what pagination.next of an earlier answer says", wire.Clip(text)))
	}
	return problem.Position{Groups: kind == "groups", After: after}
}
