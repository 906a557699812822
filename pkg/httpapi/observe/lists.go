package observe

import (
	"strconv"
	"strings"
	"time"

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
	}
	if p.QueryParams().Has("cursor") {
		after := p.Text("cursor")
		filter.After = &after
	}
	if p.Err != nil {
		return nil, p.Err
	}
	page, err := h.Queues.QueuePage(p.Ctx(), filter)
	return wire.Fields{"queues", wire.Each(page.Queues, pagedQueueRow), "pagination", wire.Fields{"limit", filter.Limit, "next", page.Next}}, err
}

func pagedQueueRow(q *stats.PagedQueue) wire.Fields {
	return wire.Fields{
		"id", q.ID, "name", q.Name, "namespace", q.Namespace, "task", q.Task, "createdAt", q.CreatedAt, "paused", q.Paused,
		"groups", q.Groups, "partitions", q.Partitions,
		"messages", wire.Fields{"total", q.Counts.Total, "pending", q.Counts.Pending, "processing", q.Counts.Processing, "deadLetter", q.Counts.DeadLetter},
		"countsAreLowerBounds", !q.Complete, "oldestSeconds", secondsOrNull(q.Oldest),
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
	limit, after := readLimit(p, maxTags), stats.TagPair{Namespace: p.Text("afterNamespace"), Task: p.Text("afterTask")}
	if p.Err != nil {
		return nil, p.Err
	}
	pairs, err := h.Queues.TagPairs(p.Ctx(), after, limit)
	tags := make([]wire.Fields, len(pairs))
	var next any
	for i, pair := range pairs {
		tags[i] = wire.Fields{"namespace", pair.Namespace, "task", pair.Task}
		if i+1 == limit {
			next = wire.Fields{"afterNamespace", pair.Namespace, "afterTask", pair.Task}
		}
	}
	return wire.Fields{"tags", tags, "pagination", wire.Fields{"limit", limit, "next", next}}, err
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
	return wire.Fields{
		"problems", wire.Each(found.Problems, problemRow), "found", found.Total, "examined", found.Examined,
		"pagination", wire.Fields{"limit", limit, "next", positionCursor(found.Next)},
	}, nil
}

func problemRow(f *problem.Problem) wire.Fields {
	return wire.Fields{
		"kind", f.Kind, "urgent", f.Urgent, "queue", wire.OrNull(f.Queue), "consumerGroup", wire.OrNull(f.Group), "partition", partitionOf(f),
		"ageSeconds", secondsOrNull(f.Age), "messages", f.Messages, "messagesAreLowerBound", !f.Complete,
		"deliveries", f.Deliveries, "failures", f.Failures, "retryInSeconds", secondsOrNull(f.RetryIn), "session", wire.OrNull(f.Session),
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
