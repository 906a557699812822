package stats

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlQueuePage    = sql.Query("insight/stats/queue_page")
	sqlQueueFigures = sql.Query("insight/stats/queue_figures")
	sqlQueueTags    = sql.Query("insight/stats/queue_tags")
)

// These constants bound the work for a page of queues. They do not depend on the size of the database.
const (
	// ExaminedQueues is how many queues one page examines at most.
	ExaminedQueues = 2000
	// CountedPartitions is how many partitions of a listed queue are counted at most.
	CountedPartitions = 100
	// countedCursors is how many cursors of a listed queue are counted at most. It also bounds the counted groups.
	countedCursors = 1000
	// MaxDeadLetters is how many dead letters of a listed queue are counted at most.
	MaxDeadLetters = 1000
)

// PagedQueue is a queue with figures that cost a bounded amount of work.
type PagedQueue struct {
	ID                    queue.ID
	Name, Namespace, Task string
	CreatedAt             time.Time
	Paused                bool
	// Groups counts the groups, at most 1000. Partitions counts partitions, at most CountedPartitions, or fewer if the
	// queue has more than 10 groups. Counts covers these partitions. Its DeadLetter counts the dead letters of all
	// groups, at most MaxDeadLetters.
	Groups, Partitions int64
	Counts             Counts
	// Complete is true if all partitions and groups are counted. Otherwise the numbers are lower bounds.
	Complete bool
	// Oldest is the age of the oldest unfinished message of a group, or zero. It covers the counted partitions and the
	// partitions that have been due the longest. If Complete is false, another partition may have an older message.
	Oldest time.Duration
	// Late says that an unfinished message is due or in delivery, and so old that its group is late.
	Late bool

	key int64
}

// QueuePageFilter chooses the queues of a page.
type QueuePageFilter struct {
	// After is the name after which the page starts. If it is nil, the page starts at the first queue.
	After *string
	// Name is a part of the name and ignores case. Namespace and Task match exactly. Empty matches any value.
	Name, Namespace, Task string
	Limit                 int
	// Allowed are patterns of names, as in belfry.matches. Nil matches any.
	Allowed []string
	// LateAfter is problems.late_after.
	LateAfter time.Duration
}

// QueuePage is a page of queues by name.
type QueuePage struct {
	Queues []PagedQueue
	// Next is the After of the next page, or nil on the last page. A page with fewer queues than the limit can have a
	// next page, because one request examines at most ExaminedQueues.
	Next *string
}

// QueuePage lists queues by name. The cost does not depend on the number of queues, partitions and messages. Errors:
// CodeUnavailable.
func (r *Reader) QueuePage(ctx context.Context, f QueuePageFilter) (page QueuePage, err error) {
	var matches, last bool
	var name string
	rows, err := postgres.Collect(ctx, r.pool, sqlQueuePage, func(row pgx.CollectableRow) (paged PagedQueue, err error) {
		err = row.Scan(&paged.key, &paged.ID, &paged.Name, &paged.Namespace, &paged.Task, &paged.CreatedAt, &paged.Paused, &matches, &last)
		name = paged.Name
		return paged, err
	}, f.After, int64(f.Limit), f.Name, f.Namespace, f.Task, postgres.LikePatterns(f.Allowed), int64(ExaminedQueues))
	if err != nil {
		return page, postgres.Wrapf(err, "listing queues by name")
	}
	if last || len(rows) == f.Limit {
		page.Next = &name
	}
	if last && !matches { // the row only says where the next page starts
		rows = rows[:len(rows)-1]
	}
	page.Queues = rows
	return page, postgres.Wrapf(r.figures(ctx, page.Queues, f.LateAfter), "counting queues")
}

// figures sets the numbers of the queues of a page.
func (r *Reader) figures(ctx context.Context, queues []PagedQueue, lateAfter time.Duration) error {
	if len(queues) == 0 {
		return nil
	}
	keys := make([]int64, len(queues))
	for i := range queues {
		keys[i] = queues[i].key
	}
	_, err := postgres.Collect(ctx, r.pool, sqlQueueFigures, func(row pgx.CollectableRow) (none struct{}, err error) {
		var ord int64
		var figures PagedQueue
		c := &figures.Counts
		if err = row.Scan(&ord, &figures.Groups, &figures.Partitions, &figures.Complete, &c.Total, &c.Pending, &c.Processing, &c.DeadLetter,
			(*postgres.Seconds)(&figures.Oldest), &figures.Late); err != nil {
			return none, err
		}
		q := &queues[ord-1]
		q.Groups, q.Partitions, q.Complete, q.Counts = figures.Groups, figures.Partitions, figures.Complete, figures.Counts
		q.Oldest, q.Late = max(0, figures.Oldest), figures.Late
		return none, nil
	}, keys, int64(CountedPartitions), int64(countedCursors), int64(MaxDeadLetters), lateAfter.Seconds())
	return err
}

// TagPairs lists at most limit pairs of namespace and task in order, after a pair. The zero pair is before the first one.
// The list leaves out the pair of two empty tags. The cost does not depend on the number of queues. Errors:
// CodeUnavailable.
func (r *Reader) TagPairs(ctx context.Context, after api.TagPair, limit int) ([]api.TagPair, error) {
	found, err := postgres.Collect(ctx, r.pool, sqlQueueTags, pgx.RowToStructByPos[api.TagPair], after.Namespace, after.Task, int64(limit))
	return found, postgres.Wrapf(err, "listing the tags of queues")
}
