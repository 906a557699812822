package wire

import (
	"context"
	"slices"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/insight/history"
)

// BacklogReader reads the backlogs of queues, or of a group in these queues. *history.Reader is one.
type BacklogReader interface {
	Backlog(ctx context.Context, span history.Range, queues []string, f history.Filter) ([]history.BacklogAt, error)
}

// WithBacklog reads the backlogs of the found queues. With the parameter queue, it adds the missing buckets with a backlog.
func (q *HistoryQuery) WithBacklog(p *Params, r BacklogReader, found []history.Bucket) ([]history.Bucket, map[history.At]*history.BacklogAt, error) {
	whole := q.Queue != nil && q.Namespace == nil && q.Task == nil
	names := []string{}
	if whole {
		names = append(names, *q.Queue)
	}
	for i := range found {
		names = append(names, found[i].Queue)
	}
	slices.Sort(names)
	backlogs, err := r.Backlog(p.Ctx(), q.Range, slices.Compact(names), q.Filter)
	if whole {
		found = history.WithBacklog(found, backlogs)
	}
	byBucket := make(map[history.At]*history.BacklogAt, len(backlogs))
	for i := range backlogs {
		b := &backlogs[i]
		byBucket[history.At{Unix: b.At.Unix(), Queue: b.Queue}] = b
	}
	return found, byBucket, err
}

// Backlog describes the backlog of a bucket.
func (q *HistoryQuery) Backlog(backlogs map[history.At]*history.BacklogAt, at history.At) (found api.BucketBacklog) {
	if b := backlogs[at]; b != nil {
		end := b.At.Add(q.Bucket)
		if end.After(q.To) {
			end = q.To
		}
		age := int64(b.Age(end).Seconds())
		found = api.BucketBacklog{Backlog: &b.Messages, OldestSeconds: &age, BacklogCountedAt: &b.CountedAt}
	}
	return found
}
