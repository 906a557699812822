package stats

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlQueues = sql.Query("insight/stats/queues")
	sqlCounts = sql.Query("insight/stats/counts")
)

const (
	// One statement counts at most partitionPage partitions of each of at most queuePage queues.
	partitionPage = 1000
	queuePage     = 100
)

// Reader reads queues and messages. It is safe for concurrent use.
type Reader struct{ pool *postgres.Pool }

// New returns a Reader that uses pool.
func New(pool *postgres.Pool) *Reader { return &Reader{pool: pool} }

// Counts counts messages by state. The package doc defines the states.
type Counts struct{ Total, Pending, Processing, Completed, DeadLetter int64 }

func (c *Counts) add(o Counts) {
	c.Total += o.Total
	c.Pending += o.Pending
	c.Processing += o.Processing
	c.Completed += o.Completed
	c.DeadLetter += o.DeadLetter
}

// Queue is a queue with the counts of its messages.
type Queue struct {
	key        int64
	ID         queue.ID
	Name       string
	Namespace  string
	Task       string
	CreatedAt  time.Time
	Paused     bool
	Options    queue.Options
	Extensions queue.Extensions
	Partitions int64
	Counts     Counts
	// counted is the name of the last counted partition, or nil.
	counted *string
}

// QueueFilter chooses queues.
type QueueFilter struct {
	// Namespace and Task match exactly. Empty matches any value.
	Namespace, Task string
	// Limit is the maximum number of queues. 0 means no limit. Offset is the number of newest queues to skip.
	Limit, Offset int64
	// Allowed are patterns of names, as in belfry.matches. Nil matches any name.
	Allowed []string
}

// Queues lists queues with their counts, newest first. The cost is O(partitions of
// these queues). Errors: CodeUnavailable.
func (r *Reader) Queues(ctx context.Context, filter QueueFilter) ([]Queue, error) {
	queues, err := r.queues(ctx, filter)
	if err == nil {
		err = r.count(ctx, queues, nil)
	}
	return queues, postgres.Wrapf(err, "listing queues")
}

// queues lists queues without counts.
func (r *Reader) queues(ctx context.Context, filter QueueFilter) ([]Queue, error) {
	limit := filter.Limit
	if limit == 0 {
		limit = 1<<63 - 1
	}
	return postgres.Collect(ctx, r.pool, sqlQueues, scanQueue, filter.Namespace, filter.Task, limit, filter.Offset,
		postgres.LikePatterns(filter.Allowed))
}

func scanQueue(row pgx.CollectableRow) (Queue, error) {
	var q Queue
	o, more := &q.Options, &q.Extensions
	err := row.Scan(&q.key, &q.ID, &q.Name, &q.Namespace, &q.Task, &q.CreatedAt, &o.Priority, &o.LeaseTime,
		&o.RetryLimit, &o.RetryDelay, &o.TTL, &o.MaxSize, &o.DeadLetterQueue, &q.Paused, &o.DelayedProcessing, &o.WindowBuffer,
		&o.EncryptionEnabled, &o.RetentionEnabled, &o.RetentionSeconds, &o.CompletedRetentionSeconds, &o.MaxWaitTimeSeconds,
		&o.DLQAfterMaxRetries, &more.RetryBackoff, &more.RetryDelayMax, &more.ExpireAfterSeconds, &more.DeadLetterExpired, &more.MaxDeliveries,
		&more.TenantDelimiter)
	return q, err
}

// lags has an entry for each partition with messages that some group is not done with:
// the number of these messages, and the age of the oldest one in seconds.
type lags struct {
	offsets []int64
	ages    []float64
}

// countPage is one row of stats/counts: the counts of a page of partitions of one queue.
type countPage struct {
	// Number is the position of the queue in the parameter of the statement, from 1.
	Number, Partitions int64
	// Last is the name of the last partition of the page.
	Last *string
	Counts
	Offsets []int64
	Ages    []float64
}

// count sets Partitions and Counts of each queue. If found is not nil, count adds the lags
// of the partitions to found.
func (r *Reader) count(ctx context.Context, queues []Queue, found *lags) error {
	for chunk := range slices.Chunk(queues, queuePage) {
		var open []*Queue
		for i := range chunk {
			open = append(open, &chunk[i])
		}
		for len(open) > 0 {
			if err := ctx.Err(); err != nil {
				return err // the request was canceled
			}
			var err error
			if open, err = r.countPages(ctx, open, found, partitionPage); err != nil {
				return err
			}
		}
	}
	return nil
}

// countPages counts the next size partitions of each queue. It returns the queues that may have more
// partitions.
func (r *Reader) countPages(ctx context.Context, open []*Queue, found *lags, size int) (more []*Queue, err error) {
	keys, after := make([]int64, len(open)), make([]*string, len(open))
	for i, q := range open {
		keys[i], after[i] = q.key, q.counted
	}
	pages, err := postgres.Collect(ctx, r.pool, sqlCounts, pgx.RowToStructByPos[countPage],
		keys, after, int64(size), found != nil)
	if err != nil {
		return nil, err
	}
	for _, page := range pages {
		q := open[page.Number-1]
		q.Partitions += page.Partitions
		q.Counts.add(page.Counts)
		q.counted = page.Last
		if found != nil {
			found.offsets = append(found.offsets, page.Offsets...)
			found.ages = append(found.ages, page.Ages...)
		}
		if page.Partitions == int64(size) {
			more = append(more, q)
		}
	}
	return more, nil
}

// Tag is a namespace or a task, with the sums over its queues.
type Tag struct {
	Name       string
	Queues     int64
	Partitions int64
	Counts     Counts
}

// Namespaces lists the namespaces of the queues whose names match a pattern of allowed, by
// name. A nil allowed matches all queues. The cost is O(partitions). Errors: CodeUnavailable.
func (r *Reader) Namespaces(ctx context.Context, allowed []string) ([]Tag, error) {
	return r.tags(ctx, allowed, func(q *Queue) string { return q.Namespace })
}

// Tasks lists the tasks of the queues, as Namespaces lists the namespaces.
func (r *Reader) Tasks(ctx context.Context, allowed []string) ([]Tag, error) {
	return r.tags(ctx, allowed, func(q *Queue) string { return q.Task })
}

func (r *Reader) tags(ctx context.Context, allowed []string, tagOf func(*Queue) string) ([]Tag, error) {
	queues, err := r.Queues(ctx, QueueFilter{Allowed: allowed})
	if err != nil {
		return nil, err
	}
	return sumTags(queues, tagOf), nil
}

func sumTags(queues []Queue, tagOf func(*Queue) string) []Tag {
	byName := map[string]*Tag{}
	for i := range queues {
		name := tagOf(&queues[i])
		tag := byName[name]
		if tag == nil {
			tag = &Tag{Name: name}
			byName[name] = tag
		}
		tag.Queues++
		tag.Partitions += queues[i].Partitions
		tag.Counts.add(queues[i].Counts)
	}
	delete(byName, "") // the queues without a tag
	tags := make([]Tag, 0, len(byName))
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		tags = append(tags, *byName[name])
	}
	return tags
}
