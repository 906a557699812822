package stats

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlQueueGroups = sql.Query("insight/stats/queue_groups")
	sqlQueueSize   = sql.Query("insight/stats/queue_size")
	sqlQueueHeat   = sql.Query("insight/stats/queue_heat")
)

const (
	// examinedAlone is how many cursors are summed up for one group, and examinedEach for each group of a list.
	examinedAlone, examinedEach = 1000, 100
	// maxSize is how many partitions of a queue are counted, and maxDead how many dead letters of a group.
	maxSize, maxDead = 1000, 1000
	// maxReaders is how many groups the heat of a partition covers, and maxPartitionDead how many dead letters.
	maxReaders, maxPartitionDead = 20, 20
)

// Start is where a list by name starts.
type Start struct {
	// Name is the first name; empty: from the first one.
	Name string
	// After leaves out Name itself.
	After bool
}

// Size is how large a queue is.
type Size struct {
	Partitions, Stored int64
	// AtLeast: the queue has more partitions than were counted.
	AtLeast bool
}

// GroupFigures is a group of one queue. The numbers are sums over a bounded number of its cursors.
type GroupFigures struct {
	Name      string
	Mode      queue.SubscriptionMode
	StartAt   time.Time
	CreatedAt time.Time
	Paused    bool
	// Joining: cursors in older partitions are still being made.
	Joining bool
	// AtLeast: the group has more cursors than were examined, so that each number is a lower bound.
	AtLeast bool
	// Due, Leased and Resting count partitions: with a message for the next pop, with a live lease, and
	// with messages that wait for an instant. In a failing partition the first message has failed.
	Due, Leased, Resting, Failing int64
	// Held counts the messages under live leases.
	Held int64
	// Lagging counts the partitions with unfinished messages, Lag these messages, and Oldest is the age of
	// the oldest one.
	Lagging, Lag int64
	Oldest       time.Duration
	// Dead counts dead letters. DeadAtLeast: there are more.
	Dead        int64
	DeadAtLeast bool

	key int64
}

// QueueGroups is a page of the groups of a queue.
type QueueGroups struct {
	Size
	Paused bool
	Groups []GroupFigures
	// Next is the name of the last examined group if there may be more. Nil: there are no others.
	Next *string
}

// OfQueue returns groups of a queue by name, limit at most. Each has the sums over the 100 cursors that have been due
// the longest. The cost does not grow with the partitions or the messages. Errors: CodeNotFound,
// CodeUnavailable.
func (g *Groups) OfQueue(ctx context.Context, queueName string, from Start, limit int) (QueueGroups, error) {
	var out QueueGroups
	in, err := New(g.pool).queue(ctx, queueName)
	if err == nil {
		out.Paused = in.Paused
		out.Size, err = g.size(ctx, in.key)
	}
	if err == nil {
		var examined int
		var last string
		out.Groups, examined, last, err = g.figures(ctx, in.key, from, limit, examinedEach)
		if examined == limit {
			out.Next = &last
		}
	}
	return out, postgres.Wrapf(err, "listing the groups of queue %q", queueName)
}

func (g *Groups) size(ctx context.Context, queueKey int64) (out Size, err error) {
	err = g.pool.ScanRow(ctx, []any{&out.Partitions, &out.Stored}, sqlQueueSize, queueKey, int64(maxSize+1))
	out.AtLeast = out.Partitions > maxSize
	return out, err
}

// figures returns the groups with their sums over a number of cursors, how many rows were examined, and the
// last name of these.
func (g *Groups) figures(ctx context.Context, queueKey int64, from Start, limit, cursors int) (out []GroupFigures, examined int, last string, err error) {
	_, err = postgres.Collect(ctx, g.pool, sqlQueueGroups, func(row pgx.CollectableRow) (none struct{}, err error) {
		var figures GroupFigures
		var lives bool
		err = row.Scan(&figures.key, &figures.Name, &figures.Mode, (*zeronull.Timestamptz)(&figures.StartAt), &figures.CreatedAt, &figures.Paused, &figures.Joining,
			&lives, &figures.AtLeast, &figures.Due, &figures.Leased, &figures.Resting, &figures.Failing, &figures.Held, &figures.Lagging, &figures.Lag,
			(*postgres.Seconds)(&figures.Oldest), &figures.Dead)
		figures.AtLeast = figures.AtLeast || figures.Joining
		if figures.DeadAtLeast = figures.Dead > maxDead; figures.DeadAtLeast {
			figures.Dead = maxDead
		}
		if lives {
			out = append(out, figures)
		}
		examined, last = examined+1, figures.Name
		return none, err
	}, queueKey, from.Name, from.After, int64(limit), int64(cursors), int64(maxDead+1))
	return out, examined, last, err
}

// HeatFilter chooses partitions of a queue for their heat.
type HeatFilter struct {
	// Worst: those with the oldest unfinished messages, as far as a bounded look finds them. Otherwise by
	// name, from From on.
	Worst bool
	From  Start
	// Group limits the figures to one group. Empty: at most 20 groups count, the first by name.
	Group string
	// Limit bounds the partitions.
	Limit int
}

// Heat is a partition with its unfinished messages.
type Heat struct {
	ID     queue.ID
	Name   string
	Paused bool
	// PushedAt is the last push; zero: none.
	PushedAt time.Time
	Stored   int64
	// Lag, Age and Failures are the largest of the groups: the unfinished messages, the age of the oldest
	// one, and how often it failed. Group is the group with the oldest one; empty: no group has a cursor.
	Lag      int64
	Age      time.Duration
	Failures int64
	Group    string
	// Leased: a group has a live lease. Resting: the messages of a group wait for an instant.
	Leased, Resting bool
	// Dead counts dead letters, DeadAtLeast: there are more.
	Dead        int64
	DeadAtLeast bool
}

// Heat returns partitions of a queue with their unfinished messages. Next is the last name of a list by name, if there may
// be more; nil: the end. The cost does not grow with the partitions or the messages of the queue. Errors:
// CodeNotFound, CodeUnavailable.
func (g *Groups) Heat(ctx context.Context, queueName string, f HeatFilter) (found []Heat, next *string, err error) {
	q, err := New(g.pool).queue(ctx, queueName)
	if err == nil {
		found, err = postgres.Collect(ctx, g.pool, sqlQueueHeat, scanHeat,
			q.key, f.Worst, f.From.Name, f.From.After, int64(f.Limit), zeronull.Text(f.Group), int64(maxReaders), int64(maxPartitionDead+1))
	}
	if n := len(found); n == f.Limit && !f.Worst {
		next = &found[n-1].Name
	}
	return found, next, postgres.Wrapf(err, "reading the partitions of queue %q", queueName)
}

func scanHeat(row pgx.CollectableRow) (heat Heat, err error) {
	err = row.Scan(&heat.Name, &heat.ID, &heat.Paused, (*zeronull.Timestamptz)(&heat.PushedAt), &heat.Stored, &heat.Lag, (*postgres.Seconds)(&heat.Age),
		&heat.Failures, &heat.Leased, &heat.Resting, (*zeronull.Text)(&heat.Group), &heat.Dead)
	if heat.DeadAtLeast = heat.Dead > maxPartitionDead; heat.DeadAtLeast {
		heat.Dead = maxPartitionDead
	}
	return heat, err
}

// instantOrNull is NULL for the zero time.
func instantOrNull(at time.Time) pgtype.Timestamptz {
	return pgtype.Timestamptz{Time: at, Valid: !at.IsZero()}
}
