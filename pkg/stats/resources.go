package stats

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// partitionPage is how many partitions of a queue one statement counts, and
	// queuePage how many queues.
	partitionPage = 1000
	queuePage     = 100
)

// Counts are messages by state; the package says what each means.
type Counts struct{ Total, Pending, Processing, Completed, DeadLetter int64 }

func (c *Counts) add(o Counts) {
	c.Total += o.Total
	c.Pending += o.Pending
	c.Processing += o.Processing
	c.Completed += o.Completed
	c.DeadLetter += o.DeadLetter
}

// Queue is a queue with what it holds.
type Queue struct {
	key        int64
	ID         queue.ID
	Name       string
	Namespace  string
	Task       string
	CreatedAt  time.Time
	Options    queue.Options // LeaseTime, RetryLimit, RetryDelay, TTL, MaxSize, Priority and DeadLetterQueue only
	Partitions int64
	Counts     Counts
}

// QueueFilter chooses queues.
type QueueFilter struct {
	// Namespace and Task match exactly; empty matches any.
	Namespace, Task string
	// Limit bounds the queues, 0 does not; Offset passes over the newest ones.
	Limit, Offset int64
}

// Queues lists queues with their counts, newest first. It costs O(partitions of
// these queues). Errors: CodeUnavailable.
func (r *Reader) Queues(ctx context.Context, filter QueueFilter) ([]Queue, error) {
	queues, err := r.queues(ctx, filter)
	if err == nil {
		err = r.count(ctx, queues, nil)
	}
	if err != nil {
		return nil, postgres.Wrap(fmt.Errorf("listing queues: %w", err))
	}
	return queues, nil
}

// queues lists queues without counts.
func (r *Reader) queues(ctx context.Context, filter QueueFilter) ([]Queue, error) {
	limit := filter.Limit
	if limit == 0 {
		limit = 1<<63 - 1
	}
	return collect(ctx, r, "stats/queues", scanQueue, filter.Namespace, filter.Task, limit, filter.Offset)
}

func scanQueue(row pgx.CollectableRow) (Queue, error) {
	var q Queue
	o := &q.Options
	err := row.Scan(&q.key, (*[16]byte)(&q.ID), &q.Name, &q.Namespace, &q.Task, &q.CreatedAt, &o.Priority, &o.LeaseTime,
		&o.RetryLimit, &o.RetryDelay, &o.TTL, &o.MaxSize, &o.DeadLetterQueue)
	return q, err
}

// lags are those of the partitions that some group is not done with: how many
// messages it has before it, and the age of the oldest in seconds.
type lags struct {
	offsets []int64
	ages    []float64
}

// countPage is one row of stats_counts.
type countPage struct {
	place      int64
	partitions int64
	last       *string
	counts     Counts
	lags       lags
}

// count fills in Partitions and Counts, and lags unless it is nil.
func (r *Reader) count(ctx context.Context, queues []Queue, found *lags) error {
	for some := range slices.Chunk(queues, queuePage) {
		keys, after := make([]int64, len(some)), make([]*string, len(some))
		places := make([]*Queue, len(some))
		for i := range some {
			keys[i], places[i] = some[i].key, &some[i]
		}
		for len(keys) > 0 {
			if err := ctx.Err(); err != nil {
				return err // whoever asked has left
			}
			pages, err := collect(ctx, r, "stats/counts", scanCounts, keys, after, int64(partitionPage), found != nil)
			if err != nil {
				return err
			}
			// Those with a full page may have more partitions.
			var nextKeys []int64
			var nextAfter []*string
			var nextPlaces []*Queue
			for _, page := range pages {
				q := places[page.place-1]
				q.Partitions += page.partitions
				q.Counts.add(page.counts)
				if found != nil {
					found.offsets = append(found.offsets, page.lags.offsets...)
					found.ages = append(found.ages, page.lags.ages...)
				}
				if page.partitions == partitionPage {
					nextKeys, nextAfter, nextPlaces = append(nextKeys, q.key), append(nextAfter, page.last), append(nextPlaces, q)
				}
			}
			keys, after, places = nextKeys, nextAfter, nextPlaces
		}
	}
	return nil
}

func scanCounts(row pgx.CollectableRow) (countPage, error) {
	var p countPage
	c := &p.counts
	err := row.Scan(&p.place, &p.partitions, &p.last, &c.Total, &c.Pending, &c.Processing, &c.Completed, &c.DeadLetter,
		&p.lags.offsets, &p.lags.ages)
	return p, err
}

// Tag is a namespace or a task, with the queues that carry it.
type Tag struct {
	Name       string
	Queues     int64
	Partitions int64
	Counts     Counts
}

// Namespaces lists the namespaces of all queues by name; a queue without one is
// in none. It costs O(partitions). Errors: CodeUnavailable.
func (r *Reader) Namespaces(ctx context.Context) ([]Tag, error) {
	return r.tags(ctx, func(q *Queue) string { return q.Namespace })
}

// Tasks is Namespaces for tasks.
func (r *Reader) Tasks(ctx context.Context) ([]Tag, error) {
	return r.tags(ctx, func(q *Queue) string { return q.Task })
}

func (r *Reader) tags(ctx context.Context, of func(*Queue) string) ([]Tag, error) {
	queues, err := r.Queues(ctx, QueueFilter{})
	if err != nil {
		return nil, err
	}
	return sumTags(queues, of), nil
}

func sumTags(queues []Queue, of func(*Queue) string) []Tag {
	byName := map[string]int{}
	tags := []Tag{}
	for i := range queues {
		name := of(&queues[i])
		if name == "" {
			continue
		}
		place, known := byName[name]
		if !known {
			place = len(tags)
			byName[name] = place
			tags = append(tags, Tag{Name: name})
		}
		tag := &tags[place]
		tag.Queues++
		tag.Partitions += queues[i].Partitions
		tag.Counts.add(queues[i].Counts)
	}
	slices.SortFunc(tags, func(a, b Tag) int { return cmp.Compare(a.Name, b.Name) })
	return tags
}
