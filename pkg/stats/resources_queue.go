package stats

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Partition is a partition with what it holds. An instant that there is none of
// is nil.
type Partition struct {
	ID        queue.ID
	Name      string
	CreatedAt time.Time
	Counts    Counts
	// Oldest and Newest are when the first and the last stored message came; zero:
	// none is stored.
	Oldest, Newest time.Time
	// Consumed counts what all groups together have done.
	Consumed int64
	// ActiveAt is the last push or consumption; zero: there was none.
	ActiveAt time.Time
	// Expired counts, once for each group, the messages that a pop found expired and
	// passed over.
	Expired int64
}

// QueueDetail is a queue and a page of its partitions by name. The counts of the
// queue are those of all its partitions.
type QueueDetail struct {
	Queue
	Page []Partition
	// More: partitions follow the page.
	More bool
	// Swept is what sweeps did to the queue.
	Swept Swept
}

// Queue looks one queue up by name, with limit partitions after the one named
// after (nil: from the first one). It costs O(partitions). Errors: CodeNotFound,
// CodeUnavailable.
func (r *Reader) Queue(ctx context.Context, name string, after *string, limit int) (QueueDetail, error) {
	detail, err := r.queueDetail(ctx, name, after, limit)
	if err != nil {
		return QueueDetail{}, postgres.Wrap(fmt.Errorf("reading queue %q: %w", name, err))
	}
	return detail, nil
}

func (r *Reader) queueDetail(ctx context.Context, name string, after *string, limit int) (QueueDetail, error) {
	q, err := r.queue(ctx, name)
	if err != nil {
		return QueueDetail{}, err
	}
	detail := QueueDetail{Queue: q}
	if detail.Swept, err = r.swept(ctx, q.key); err != nil {
		return detail, err
	}
	whole := after == nil
	for len(detail.Page) < limit {
		if err := ctx.Err(); err != nil {
			return detail, err
		}
		want := min(limit-len(detail.Page), partitionPage)
		page, err := collect(ctx, r, "stats/partitions", scanPartition, q.key, after, int64(want))
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
		// The sums are those of what is listed, of the same instant.
		for i := range detail.Page {
			detail.Partitions++
			detail.Counts.add(detail.Page[i].Counts)
		}
		return detail, nil
	}
	one := []Queue{q}
	err = r.count(ctx, one, nil)
	detail.Queue = one[0]
	return detail, err
}

// Exists says nil when there is a queue of that name. Errors: CodeNotFound,
// CodeUnavailable.
func (r *Reader) Exists(ctx context.Context, name string) error {
	if _, err := r.queue(ctx, name); err != nil {
		return postgres.Wrap(fmt.Errorf("looking for queue %q: %w", name, err))
	}
	return nil
}

// queue finds a queue, without its counts.
func (r *Reader) queue(ctx context.Context, name string) (Queue, error) {
	found, err := collect(ctx, r, "stats/queue", scanQueue, name)
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
	err := row.Scan((*[16]byte)(&p.ID), &p.Name, &p.CreatedAt, &c.Total, &c.Pending, &c.Processing, &c.Completed, &c.DeadLetter,
		(*zeronull.Timestamptz)(&p.Oldest), (*zeronull.Timestamptz)(&p.Newest), &p.Consumed,
		(*zeronull.Timestamptz)(&p.ActiveAt), &p.Expired)
	return p, err
}
