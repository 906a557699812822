package stats

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlGroups   = sql.Query("insight/stats/groups")
	sqlGroupLag = sql.Query("insight/stats/group_lag")
)

// groupPage is the number of partitions that one statement reads.
const groupPage = 5000

// Groups reads consumer groups. It is safe for concurrent use.
type Groups struct {
	pool *postgres.Pool
	// seekBudget is the constant, except in tests.
	seekBudget time.Duration
}

// NewGroups returns Groups that use pool.
func NewGroups(pool *postgres.Pool) *Groups {
	return &Groups{pool: pool, seekBudget: seekBudget}
}

// Group is a consumer group of one queue.
type Group struct {
	Name, Queue string
	// Mode, StartAt and CreatedAt are the stored subscription. A group with SubscribeAll
	// stores none, and its StartAt is zero.
	Mode               queue.SubscriptionMode
	StartAt, CreatedAt time.Time
	Paused             bool
	// Partitions counts the partitions in which the group has a cursor. Lagging counts
	// the partitions with unfinished messages. Lag counts the unfinished messages.
	Partitions, Lagging, Lag int64
	// Oldest is the largest time lag of a partition.
	Oldest time.Duration
	// ConsumedAt is when the group last consumed a message, or zero if it never did.
	ConsumedAt time.Time

	key, queueKey int64
	whole         bool
}

// List returns the consumer groups of the queues whose names match a pattern of allowed, by
// name and queue. A nil allowed matches every queue. Errors: CodeUnavailable.
func (g *Groups) List(ctx context.Context, allowed []string) ([]Group, error) {
	groups, err := g.named(ctx, nil, allowed)
	if err != nil || len(groups) == 0 {
		return nil, err
	}
	byKey := make(map[int64]*Group, len(groups))
	for i := range groups {
		byKey[groups[i].key] = &groups[i]
	}
	err = g.pages(ctx, sqlGroupLag, func(row pgx.CollectableRow) (lastID int64, err error) {
		var key int64
		var page Group
		err = row.Scan(&lastID, (*zeronull.Int8)(&key), &page.Partitions, &page.Lagging, &page.Lag, (*postgres.Seconds)(&page.Oldest),
			(*zeronull.Timestamptz)(&page.ConsumedAt))
		if group := byKey[key]; group != nil && err == nil {
			group.add(&page)
		}
		return lastID, err
	})
	if err != nil {
		return nil, postgres.Wrapf(err, "reading the lag of consumer groups")
	}
	// A row without cursors and without whole_queue is the kept subscription of a deleted
	// group.
	return slices.DeleteFunc(groups, func(group Group) bool { return !group.whole && group.Partitions == 0 }), nil
}

// add adds the figures of a page of partitions.
func (g *Group) add(page *Group) {
	g.Partitions += page.Partitions
	g.Lagging += page.Lagging
	g.Lag += page.Lag
	g.Oldest = max(g.Oldest, page.Oldest)
	if page.ConsumedAt.After(g.ConsumedAt) {
		g.ConsumedAt = page.ConsumedAt
	}
}

// named returns the groups with a name, without their figures. A nil name matches every
// group. allowed has the same meaning as in List.
func (g *Groups) named(ctx context.Context, name *string, allowed []string) ([]Group, error) {
	groups, err := postgres.Collect(ctx, g.pool, sqlGroups, func(row pgx.CollectableRow) (group Group, err error) {
		err = row.Scan(&group.key, &group.Name, &group.Queue, &group.queueKey, &group.Mode, (*zeronull.Timestamptz)(&group.StartAt),
			&group.CreatedAt, &group.whole, &group.Paused)
		return group, err
	}, name, postgres.LikePatterns(allowed))
	return groups, postgres.Wrapf(err, "listing consumer groups")
}

// pages runs a statement over all partitions, page by page, until it returns no row. The
// first two parameters of the statement are the partition id to start after and the size
// of a page. read reads a row and returns the id of the last partition of the page.
func (g *Groups) pages(ctx context.Context, statement string, read pgx.RowToFunc[int64], args ...any) error {
	args = append([]any{int64(0), int64(groupPage)}, args...)
	for ctx.Err() == nil {
		ids, err := postgres.Collect(ctx, g.pool, statement, read, args...)
		if err != nil || len(ids) == 0 {
			return err
		}
		args[0] = ids[len(ids)-1]
	}
	return ctx.Err()
}
