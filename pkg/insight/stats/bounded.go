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
	// The figures of a single group cover examinedAlone cursors. In a list, the figures of each group cover examinedEach
	// cursors.
	examinedAlone, examinedEach = 1000, 100
	// maxSize is how many partitions of a queue are counted. maxDead is how many dead letters of a group are counted.
	maxSize, maxDead = 1000, 1000
	// maxReaders is how many groups the Heat of a partition covers. maxPartitionDead is how many of its dead letters are
	// counted.
	maxReaders, maxPartitionDead = 20, 20
)

// Start is where a list by name starts.
type Start struct {
	// Name is the first name of the list. If it is empty, the list starts at the beginning.
	Name string
	// After is true if the list starts after Name.
	After bool
}

// Size is how large a queue is.
type Size struct {
	Partitions, Stored int64
	// AtLeast is true if the queue has more than maxSize partitions, so that both numbers are lower bounds.
	AtLeast bool
}

// GroupFigures describes a group of one queue. The numbers are sums over a bounded number of its cursors.
type GroupFigures struct {
	Name      string
	Mode      queue.SubscriptionMode
	StartAt   time.Time
	CreatedAt time.Time
	Paused    bool
	// Joining is true while cursors in older partitions are still being created.
	Joining bool
	// AtLeast is true if the group has more cursors than were examined, so that each number is a lower bound.
	AtLeast bool
	// Due counts the partitions with a message for the next pop. Leased counts the partitions with a live lease.
	// Resting counts the partitions whose messages wait for an instant. Failing counts the partitions whose first
	// message has failed.
	Due, Leased, Resting, Failing int64
	// Held counts the messages under live leases.
	Held int64
	// Lagging counts the partitions with unfinished messages. Lag counts the unfinished messages. Oldest is the age
	// of the oldest unfinished message.
	Lagging, Lag int64
	Oldest       time.Duration
	// Late says that an unfinished message is due or in delivery, and so old that the group is late.
	Late bool
	// Dead counts dead letters. If DeadAtLeast is true, there are more.
	Dead        int64
	DeadAtLeast bool

	key int64
}

// QueueGroups is a page of the groups of a queue.
type QueueGroups struct {
	Size
	Paused bool
	Groups []GroupFigures
	// Next is the name of the last examined group if there may be more groups. Otherwise it is nil.
	Next *string
}

// OfQueue returns at most limit groups of a queue, by name. The figures of a group cover the 100 cursors that have been
// due the longest. The cost does not grow with the number of partitions or messages. Errors: CodeNotFound,
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

// figures returns groups with their sums over at most the given number of cursors. examined is the number of examined
// rows, and last is the name in the last row.
func (g *Groups) figures(ctx context.Context, queueKey int64, from Start, limit, cursors int) (out []GroupFigures, examined int, last string, err error) {
	_, err = postgres.Collect(ctx, g.pool, sqlQueueGroups, func(row pgx.CollectableRow) (none struct{}, err error) {
		var figures GroupFigures
		var lives bool
		err = row.Scan(&figures.key, &figures.Name, &figures.Mode, (*zeronull.Timestamptz)(&figures.StartAt), &figures.CreatedAt, &figures.Paused, &figures.Joining,
			&lives, &figures.AtLeast, &figures.Due, &figures.Leased, &figures.Resting, &figures.Failing, &figures.Held, &figures.Lagging, &figures.Lag,
			(*postgres.Seconds)(&figures.Oldest), &figures.Dead, &figures.Late)
		figures.AtLeast = figures.AtLeast || figures.Joining
		if figures.DeadAtLeast = figures.Dead > maxDead; figures.DeadAtLeast {
			figures.Dead = maxDead
		}
		if lives {
			out = append(out, figures)
		}
		examined, last = examined+1, figures.Name
		return none, err
	}, queueKey, from.Name, from.After, int64(limit), int64(cursors), int64(maxDead+1), g.lateAfter.Seconds())
	return out, examined, last, err
}

// HeatFilter chooses partitions of a queue.
type HeatFilter struct {
	// Worst chooses the partitions with the oldest unfinished messages. The search is bounded and may miss some.
	// If Worst is false, the partitions are listed by name, starting at From.
	Worst bool
	From  Start
	// Group limits the figures to one group. If it is empty, the figures cover the first 20 groups by name.
	Group string
	// Limit bounds the partitions.
	Limit int
}

// Heat is a partition with its unfinished messages.
type Heat struct {
	ID     queue.ID
	Name   string
	Paused bool
	// PushedAt is the last push, or zero if there was none.
	PushedAt time.Time
	Stored   int64
	// Lag is the number of unfinished messages. Age is the age of the oldest unfinished message. Failures counts the
	// failures of the first unfinished message. Each is the largest value of a group. Group is the group with the
	// largest Age. It is empty if no group has a cursor.
	Lag      int64
	Age      time.Duration
	Failures int64
	Group    string
	// Leased is true if a group has a live lease. Resting is true if the messages of a group wait for an instant.
	Leased, Resting bool
	// Dead counts dead letters. If DeadAtLeast is true, there are more.
	Dead        int64
	DeadAtLeast bool
}

// Heat returns partitions of a queue with their unfinished messages. next is the last name of a list by name, or nil if
// there are no more partitions. The cost does not grow with the number of partitions or messages of the queue. Errors:
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
