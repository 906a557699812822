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

var sqlQueueHeat = sql.Query("insight/stats/queue_heat")

// maxReaders is how many groups the heat of a partition covers, and maxPartitionDead how many dead letters.
const maxReaders, maxPartitionDead = 20, 20

// Start is where a list by name starts.
type Start struct {
	// Name is the first name of the list. If it is empty, the list starts at the beginning.
	Name string
	// After is true if the list starts after Name.
	After bool
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
