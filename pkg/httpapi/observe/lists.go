package observe

import (
	"strconv"
	"strings"
	"time"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/httpapi/lists"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/insight/problem"
	"github.com/belfry-mq/belfry/pkg/insight/totals"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// secondsOrNull returns whole seconds, or nil for zero.
func secondsOrNull(d time.Duration) *int64 {
	if d == 0 {
		return nil
	}
	n := int64(d / time.Second)
	return &n
}

// ListProblems serves GET /api/v1/problems.
func (h *Handlers) ListProblems(p *wire.Params) (any, error) {
	limit, from := lists.Limit(p, problem.MaxListed), readPosition(p)
	if p.Err != nil {
		return nil, p.Err
	}
	found, err := h.Problems.Find(p.Ctx(), from, limit, readable(p))
	if err != nil {
		return nil, err
	}
	countedAt, err := h.countProblems(p, found.Problems)
	if err != nil {
		return nil, err
	}
	return api.Problems{
		CountedAt: countedAt, Problems: wire.Each(found.Problems, problemRow), Found: int64(found.Total), Examined: int64(found.Examined),
		Pagination: api.Page{Limit: int64(limit), Next: positionCursor(found.Next)},
	}, nil
}

// countProblems sets the messages of the problems of queues and groups, and returns when they were counted. Nil: no problem is of
// a queue or a group.
func (h *Handlers) countProblems(p *wire.Params, found []problem.Problem) (*time.Time, error) {
	var s *totals.Snapshot
	var err error
	for i := range found {
		one := &found[i]
		if one.Kind == problem.HeldSnapshot || one.Schedule != "" || one.Kind == problem.StuckHead || one.Kind == problem.PausedPartition {
			continue
		}
		if s == nil {
			if s, err = lists.Counted(p, h.Totals); err != nil {
				return nil, err
			}
		}
		q, g := s.Queue(one.Queue), s.Group(one.Queue, one.Group)
		switch {
		case one.Kind == problem.PausedQueue && q != nil:
			one.Messages = q.Backlog()
		case one.Kind == problem.DeadLetters && g != nil:
			one.Messages = g.DeadLetters
		case g != nil:
			one.Messages = g.Lag
		}
	}
	if s == nil {
		return nil, nil //nolint:nilnil // nothing was counted
	}
	return &s.At, nil
}

func problemRow(f *problem.Problem) api.Problem {
	return api.Problem{
		Kind: string(f.Kind), Urgent: f.Urgent, Queue: wire.OrNull(f.Queue), ConsumerGroup: wire.OrNull(f.Group), Partition: partitionOf(f),
		AgeSeconds: secondsOrNull(f.Age), Messages: f.Messages, Deliveries: f.Deliveries,
		Failures: f.Failures, RetryInSeconds: secondsOrNull(f.RetryIn), Session: wire.OrNull(f.Session), Schedule: wire.OrNull(f.Schedule), Error: wire.OrNull(f.Error),
	}
}

// partitionOf returns nil for a kind of problem that has no partition. It compares the kind, because the name of a partition
// may be empty.
func partitionOf(f *problem.Problem) *string {
	if f.Kind == problem.StuckHead || f.Kind == problem.PausedPartition {
		return &f.Partition
	}
	return nil
}

// positionCursor returns the cursor for a position, or nil if next is nil.
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

// readPosition reads the cursor. Without a cursor it returns the zero position.
func readPosition(p *wire.Params) (from problem.Position) {
	text := p.QueryParam("cursor")
	if text == "" {
		return from
	}
	kind, id, _ := strings.Cut(text, "_")
	after, err := strconv.ParseInt(id, 10, 64)
	if err != nil || after < 0 || kind != "queues" && kind != "groups" {
		p.Check(queue.Invalidf("cursor is %q: use pagination.next of the previous page", wire.Clip(text)))
	}
	return problem.Position{Groups: kind == "groups", After: after}
}
