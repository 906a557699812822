package stats

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

// page is how many partitions one statement looks at.
const page = 5000

// Groups reads consumer groups. It is safe for concurrent use.
type Groups struct{ pool *postgres.Pool }

// NewGroups returns a Groups on pool.
func NewGroups(pool *postgres.Pool) *Groups { return &Groups{pool: pool} }

// Group is a consumer group of one queue.
type Group struct {
	Name, Queue string
	// Mode and StartAt are its stored subscription, CreatedAt is when it was
	// stored; with SubscribeAll nothing is, and StartAt is zero.
	Mode               queue.SubscriptionMode
	StartAt, CreatedAt time.Time
	// Partitions is how many it has a cursor in, Lagging in how many of them
	// something is left, and Lag how many messages that is.
	Partitions, Lagging, Lag int64
	// Oldest is the largest time lag of its partitions.
	Oldest time.Duration
	// ConsumedAt is when it last consumed something; zero: never.
	ConsumedAt time.Time

	key, queueKey int64
	whole         bool
}

// List returns every consumer group, by name and queue. Errors: CodeUnavailable.
func (g *Groups) List(ctx context.Context) ([]Group, error) {
	groups, err := g.named(ctx, nil)
	if err != nil {
		return nil, err
	}
	at := make(map[int64]*Group, len(groups))
	for i := range groups {
		at[groups[i].key] = &groups[i]
	}
	if len(groups) > 0 {
		err = g.pages(ctx, "stats/group_lag", func(row pgx.Rows) (upto int64, err error) {
			var key pgtype.Int8
			var part Group
			var age float64
			var consumedAt pgtype.Timestamptz
			err = row.Scan(&upto, &key, &part.Partitions, &part.Lagging, &part.Lag, &age, &consumedAt)
			if one := at[key.Int64]; one != nil && err == nil {
				one.Partitions += part.Partitions
				one.Lagging += part.Lagging
				one.Lag += part.Lag
				one.Oldest = max(one.Oldest, inSeconds(age))
				if consumedAt.Time.After(one.ConsumedAt) {
					one.ConsumedAt = consumedAt.Time
				}
			}
			return upto, err
		})
	}
	if err != nil {
		return nil, err
	}
	// One without a place anywhere that did not ask for all partitions is only
	// the subscription that a deleted group left.
	kept := groups[:0]
	for _, one := range groups {
		if one.whole || one.Partitions > 0 {
			kept = append(kept, one)
		}
	}
	return kept, nil
}

// named returns the groups of a name, or all, without their figures.
func (g *Groups) named(ctx context.Context, name *string) ([]Group, error) {
	ctx, cancel := g.pool.Bounded(ctx)
	defer cancel()
	rows, err := g.pool.Query(ctx, sql.Query("stats/groups"), name)
	if err != nil {
		return nil, failed("listing consumer groups", err)
	}
	groups, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (one Group, err error) {
		var mode string
		var start pgtype.Timestamptz
		err = row.Scan(&one.key, &one.Name, &one.Queue, &one.queueKey, &mode, &start, &one.CreatedAt, &one.whole)
		one.Mode, one.StartAt = queue.SubscriptionMode(mode), start.Time
		return one, err
	})
	if err != nil {
		return nil, failed("listing consumer groups", err)
	}
	return groups, nil
}

// pages runs a statement over all partitions, page by page, until it returns no
// row. Its first two parameters are the partition to look above and the size of
// a page; read reads a row and returns the last partition of its page.
func (g *Groups) pages(ctx context.Context, query string, read func(row pgx.Rows) (upto int64, err error), args ...any) error {
	for above := int64(0); ; {
		upto, err := g.onePage(ctx, query, read, append([]any{above, int64(page)}, args...))
		switch {
		case err != nil:
			return failed("running "+query, err)
		case upto == 0:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		}
		above = upto
	}
}

func (g *Groups) onePage(ctx context.Context, query string, read func(row pgx.Rows) (int64, error), args []any) (upto int64, err error) {
	ctx, cancel := g.pool.Bounded(ctx)
	defer cancel()
	rows, err := g.pool.Query(ctx, sql.Query(query), args...)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for rows.Next() {
		if upto, err = read(rows); err != nil {
			return 0, err
		}
	}
	return upto, rows.Err()
}

func failed(doing string, err error) error { return postgres.Wrap(fmt.Errorf("%s: %w", doing, err)) }

func inSeconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
