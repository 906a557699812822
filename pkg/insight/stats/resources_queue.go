package stats

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlPartitions = sql.Query("insight/stats/partitions")
	sqlQueueSize  = sql.Query("insight/stats/queue_size")
	sqlSwept      = sql.Query("insight/stats/swept")
	sqlSweeps     = sql.Query("insight/stats/sweeps")
)

// Partition is a partition with the counts of its messages.
type Partition struct {
	ID        queue.ID
	Name      string
	CreatedAt time.Time
	Paused    bool
	Tenant    string // Empty: the partition has no tenant.
	Counts    Counts
	// Oldest and Newest are the instants at which the first and the last stored message
	// were pushed. Both are zero if no message is stored.
	Oldest, Newest time.Time
	// Consumed is the sum of the messages that each group has consumed.
	Consumed int64
	// ActiveAt is the instant of the last push or consumption, or zero.
	ActiveAt time.Time
	// Expired counts the messages that pops skipped because they had expired. A message
	// counts once for each group.
	Expired int64
}

// QueueDetail is a queue and a page of its partitions by name. The counts of the queue
// cover all its partitions.
type QueueDetail struct {
	Queue
	Page []Partition
	// More is true if there are partitions after the page.
	More bool
	// Partial is true if the queue has more partitions than the counts cover.
	Partial bool
	// Swept counts the messages that sweeps handled.
	Swept api.Swept
}

// Queue returns a queue by name, with at most limit partitions after the partition named
// after. If after is nil, the page starts at the first partition. The cost is
// O(partitions). Errors: CodeNotFound, CodeUnavailable.
func (r *Reader) Queue(ctx context.Context, name string, after *string, limit int) (QueueDetail, error) {
	return r.QueueUpTo(ctx, name, after, limit, nil)
}

// QueueUpTo works like Queue, but its counts cover only the first *counted partitions by
// name. Then the cost is O(limit + *counted). If counted is nil, the counts cover all.
func (r *Reader) QueueUpTo(ctx context.Context, name string, after *string, limit int, counted *int) (QueueDetail, error) {
	detail, err := r.queueDetail(ctx, name, after, limit, counted)
	return detail, postgres.Wrapf(err, "reading queue %q", name)
}

func (r *Reader) queueDetail(ctx context.Context, name string, after *string, limit int, counted *int) (QueueDetail, error) {
	q, err := r.queue(ctx, name)
	if err != nil {
		return QueueDetail{}, err
	}
	detail := QueueDetail{Queue: q}
	if detail.Swept, err = r.swept(ctx, q.key); err != nil {
		return detail, err
	}
	whole := after == nil && counted == nil
	for len(detail.Page) < limit {
		if err := ctx.Err(); err != nil {
			return detail, err
		}
		want := min(limit-len(detail.Page), partitionPage)
		page, err := postgres.Collect(ctx, r.pool, sqlPartitions, scanPartition, q.key, after, int64(want))
		if err != nil {
			return detail, err
		}
		detail.Page = append(detail.Page, page...)
		if detail.More = len(page) == want; !detail.More {
			break
		}
		after = &page[len(page)-1].Name
	}
	if whole && !detail.More {
		// The page has all partitions. Their sums belong to the same instant as the page.
		for i := range detail.Page {
			detail.Partitions++
			detail.Counts.add(detail.Page[i].Counts)
		}
		return detail, nil
	}
	single := []Queue{q}
	if counted != nil {
		detail.Partial, err = r.countSome(ctx, &single[0], *counted)
	} else {
		err = r.count(ctx, single, nil)
	}
	detail.Queue = single[0]
	return detail, err
}

// countSome counts at most the first n partitions of a queue by name. partial is true if the
// queue has more.
func (r *Reader) countSome(ctx context.Context, q *Queue, n int) (partial bool, err error) {
	for left := n; left > 0; {
		if err := ctx.Err(); err != nil {
			return true, err
		}
		size := min(left, partitionPage)
		more, err := r.countPages(ctx, []*Queue{q}, nil, size)
		if err != nil || len(more) == 0 {
			return false, err
		}
		left -= size
	}
	var found, stored int64
	err = r.pool.ScanRow(ctx, []any{&found, &stored}, sqlQueueSize, q.key, int64(n+1))
	return found > int64(n), err
}

// Exists returns nil when there is a queue of that name. Errors: CodeNotFound,
// CodeUnavailable.
func (r *Reader) Exists(ctx context.Context, name string) error {
	_, err := r.queue(ctx, name)
	return postgres.Wrapf(err, "looking for queue %q", name)
}

// queue returns a queue without its counts.
func (r *Reader) queue(ctx context.Context, name string) (Queue, error) {
	found, err := postgres.Collect(ctx, r.pool, sqlQueuesOf, scanQueue, []int64{}, "", "", nil, name)
	if err != nil {
		return Queue{}, err
	}
	if len(found) == 0 {
		return Queue{}, &queue.Error{Code: queue.CodeNotFound, Message: "Queue not found"}
	}
	return found[0], nil
}

func scanPartition(row pgx.CollectableRow) (Partition, error) {
	var p Partition
	c := &p.Counts
	err := row.Scan(&p.ID, &p.Name, &p.CreatedAt, &c.Total, &c.Pending, &c.Processing, &c.Completed, &c.DeadLetter,
		(*zeronull.Timestamptz)(&p.Oldest), (*zeronull.Timestamptz)(&p.Newest), &p.Consumed,
		(*zeronull.Timestamptz)(&p.ActiveAt), &p.Expired, &p.Paused, (*zeronull.Text)(&p.Tenant))
	return p, err
}

// swept returns the totals of a queue. They are zero if no sweep has changed the queue.
func (r *Reader) swept(ctx context.Context, key int64) (api.Swept, error) {
	found, err := postgres.Collect(ctx, r.pool, sqlSwept, pgx.RowToStructByPos[api.Swept], key)
	if err != nil || len(found) == 0 {
		return api.Swept{}, err
	}
	return found[0], nil
}

// Sweeps returns the sweeps that have run, by job. Errors: CodeUnavailable.
func (r *Reader) Sweeps(ctx context.Context) ([]api.Sweep, error) {
	found, err := postgres.Collect(ctx, r.pool, sqlSweeps, pgx.RowToStructByPos[api.Sweep])
	return found, postgres.Wrapf(err, "reading the state of the sweeps")
}
