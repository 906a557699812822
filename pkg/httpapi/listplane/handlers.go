// Package listplane serves lists that read a bounded number of rows, however large the database is: queues with their
// figures, the tags of queues, and what is wrong. Dashboards read them all the time. Queen MQ does not have them.
//
// It promises that a count that may not be exact says so, that pagination.next leads to everything that one request could not
// examine, and that a token with grants sees its queues only. The package declares the interfaces it calls. Only pkg/httpapi
// imports it.
package listplane

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/insight/problem"
	"github.com/belfry-mq/belfry/pkg/insight/stats"
	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// defaultLimit is the limit of a list without one. maxQueues, maxTags and problem.MaxListed are the largest ones.
	defaultLimit = 50
	maxQueues    = 100
	maxTags      = 1000
)

// Queues reads queues and their tags.
type Queues interface {
	QueuePage(ctx context.Context, filter stats.QueuePageFilter) (stats.QueuePage, error)
	TagPairs(ctx context.Context, after stats.TagPair, limit int) ([]stats.TagPair, error)
}

// Problems finds what is wrong.
type Problems interface {
	Find(ctx context.Context, from problem.Position, limit int, allowed []string) (*problem.Found, error)
}

// Handlers has one method for each route.
type Handlers struct {
	Queues   Queues
	Problems Problems
}

// readable returns patterns of the queues that the sender may see. Nil: every queue.
func readable(p *wire.Params) []string { return identity.GrantsOf(p.Ctx()).Readable() }

func readLimit(p *wire.Params, most int) int {
	return wire.Clamp(1, wire.LeadingInt(p.QueryParam("limit"), defaultLimit), most)
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
	queues := make([]wire.Fields, len(page.Queues))
	for i := range page.Queues {
		queues[i] = queueRow(&page.Queues[i])
	}
	return wire.Fields{"queues", queues, "pagination", wire.Fields{"limit", filter.Limit, "next", page.Next}}, err
}

func queueRow(q *stats.PagedQueue) wire.Fields {
	return wire.Fields{
		"id", q.ID, "name", q.Name, "namespace", q.Namespace, "task", q.Task, "createdAt", q.CreatedAt, "paused", q.Paused,
		"groups", q.Groups, "partitions", q.Partitions,
		"messages", wire.Fields{"total", q.Counts.Total, "pending", q.Counts.Pending, "processing", q.Counts.Processing, "deadLetter", q.Counts.DeadLetter},
		"countsAreLowerBounds", !q.Complete, "oldestSeconds", seconds(q.Oldest),
	}
}

// seconds returns whole seconds, or nil for zero.
func seconds(d time.Duration) *int64 {
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
	problems := make([]wire.Fields, len(found.Problems))
	for i := range found.Problems {
		problems[i] = problemRow(&found.Problems[i])
	}
	return wire.Fields{
		"problems", problems, "found", found.Total, "examined", found.Examined,
		"pagination", wire.Fields{"limit", limit, "next", cursor(found.Next)},
	}, nil
}

func problemRow(f *problem.Problem) wire.Fields {
	return wire.Fields{
		"kind", f.Kind, "urgent", f.Urgent, "queue", orNull(f.Queue), "consumerGroup", orNull(f.Group), "partition", partitionOf(f),
		"ageSeconds", seconds(f.Age), "messages", f.Messages, "messagesAreLowerBound", !f.Complete,
		"deliveries", f.Deliveries, "failures", f.Failures, "retryInSeconds", seconds(f.RetryIn), "session", orNull(f.Session),
	}
}

// partitionOf returns nil for a problem that is of no partition. The name of a partition may be empty.
func partitionOf(f *problem.Problem) *string {
	if f.Kind == problem.StuckHead || f.Kind == problem.PausedPartition {
		return &f.Partition
	}
	return nil
}

func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// cursor returns the text of a position, or nil without one.
func cursor(next *problem.Position) *string {
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
