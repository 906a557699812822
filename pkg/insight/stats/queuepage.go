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

// The bounds of the work for a page of queues. They do not depend on the size of the database.
const (
	// ExaminedQueues is how many queues one page examines at most.
	ExaminedQueues = 2000
	// CountedPartitions is how many partitions of a listed queue are counted at most.
	CountedPartitions = 100
	// countedCursors is how many cursors of a listed queue are counted at most, and how many groups.
	countedCursors = 1000
	// MaxDeadLetters is how many dead letters of a listed queue are counted at most.
	MaxDeadLetters = 1000
)

// PagedQueue is a queue with the figures that can be read in bounded work.
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
	// Complete says that all partitions and groups are counted. Otherwise the numbers are lower bounds.
	Complete bool
	// Oldest is the age of the oldest message that some group is not done with. It is zero without such a message. If Complete is
	// false, older messages may be in partitions that are neither counted nor due.
	Oldest time.Duration

	key int64
}

// QueuePageFilter chooses the queues of a page.
type QueuePageFilter struct {
	// After is the name after which the page begins. Nil: at the first queue.
	After *string
	// Name is a part of the name, in any case. Namespace and Task match exactly. Empty matches any.
	Name, Namespace, Task string
	Limit                 int
	// Allowed are patterns of names, as in belfry.matches. Nil matches any.
	Allowed []string
}

// QueuePage is a page of queues by name.
type QueuePage struct {
	Queues []PagedQueue
	// Next is the After of the next page. Nil: the page is the last one. A page with few queues, or none, can have a
	// next one: its request examined ExaminedQueues.
	Next *string
}

// QueuePage lists queues by name. The cost does not depend on the number of queues, partitions and messages. Errors:
// CodeUnavailable.
func (r *Reader) QueuePage(ctx context.Context, f QueuePageFilter) (page QueuePage, err error) {
	var matches, last bool
	var name string
	rows, err := postgres.Collect(ctx, r.pool, sqlQueuePage, func(row pgx.CollectableRow) (one PagedQueue, err error) {
		err = row.Scan(&one.key, &one.ID, &one.Name, &one.Namespace, &one.Task, &one.CreatedAt, &one.Paused, &matches, &last)
		name = one.Name
		return one, err
	}, f.After, int64(f.Limit), f.Name, f.Namespace, f.Task, postgres.LikePatterns(f.Allowed), int64(ExaminedQueues))
	if err != nil {
		return page, postgres.Wrapf(err, "listing queues by name")
	}
	if last || len(rows) == f.Limit {
		page.Next = &name
	}
	if last && !matches { // it is there only as the place to go on
		rows = rows[:len(rows)-1]
	}
	page.Queues = rows
	return page, postgres.Wrapf(r.figures(ctx, page.Queues), "counting queues")
}

// figures fills in what a page shows of its queues.
func (r *Reader) figures(ctx context.Context, queues []PagedQueue) error {
	if len(queues) == 0 {
		return nil
	}
	keys := make([]int64, len(queues))
	for i := range queues {
		keys[i] = queues[i].key
	}
	_, err := postgres.Collect(ctx, r.pool, sqlQueueFigures, func(row pgx.CollectableRow) (none struct{}, err error) {
		var ord int64
		var one PagedQueue
		c := &one.Counts
		if err = row.Scan(&ord, &one.Groups, &one.Partitions, &one.Complete, &c.Total, &c.Pending, &c.Processing, &c.DeadLetter, (*postgres.Seconds)(&one.Oldest)); err != nil {
			return none, err
		}
		q := &queues[ord-1]
		q.Groups, q.Partitions, q.Complete, q.Counts, q.Oldest = one.Groups, one.Partitions, one.Complete, one.Counts, max(0, one.Oldest)
		return none, nil
	}, keys, int64(CountedPartitions), int64(countedCursors), int64(MaxDeadLetters))
	return err
}

// TagPairs lists at most limit pairs in order, after a pair. The zero pair: from the first one. The pair of queues without
// tags is left out. The cost does not depend on the number of queues. Errors: CodeUnavailable.
func (r *Reader) TagPairs(ctx context.Context, after api.TagPair, limit int) ([]api.TagPair, error) {
	found, err := postgres.Collect(ctx, r.pool, sqlQueueTags, pgx.RowToStructByPos[api.TagPair], after.Namespace, after.Task, int64(limit))
	return found, postgres.Wrapf(err, "listing the tags of queues")
}
