package catalog

import (
	"context"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/events"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

// pageSize is how many partitions one transaction touches.
const pageSize = 1000

var (
	sqlEpoch           = sql.Query("store/epoch")
	sqlWake            = sql.Query("store/wake")
	sqlQueuePartitions = sql.Query("catalog/queue_partitions")
)

// Catalog runs the administrative verbs. It is safe for concurrent use.
type Catalog struct {
	pool   *postgres.Pool
	log    *zap.Logger
	events *events.Bus
	// purgeRequested holds at most one signal: there may be rows to purge.
	purgeRequested chan struct{}

	mu sync.Mutex
	// recomputePending holds the queues whose options changed while ready_at of their cursors was
	// not recomputed, because Configure failed in between. The next Configure recomputes it, even
	// if it changes no option. Guarded by mu.
	recomputePending map[int64]bool
}

// New returns a Catalog on pool that publishes its changes on bus.
func New(pool *postgres.Pool, bus *events.Bus, log *zap.Logger) *Catalog {
	return &Catalog{
		pool: pool, log: log, events: bus,
		purgeRequested: make(chan struct{}, 1), recomputePending: map[int64]bool{},
	}
}

func (c *Catalog) requestPurge() {
	select {
	case c.purgeRequested <- struct{}{}:
	default: // the pending signal covers this request too
	}
}

// partitionsAbove returns a page of partition ids of a queue in ascending order.
func (c *Catalog) partitionsAbove(ctx context.Context, queueID, above int64) ([]int64, error) {
	return c.ids(ctx, "listing partitions", sqlQueuePartitions, queueID, above, int64(pageSize))
}

// wake makes cursors of the partitions ready if they have messages to deliver.
func (c *Catalog) wake(ctx context.Context, partitions []int64) error {
	_, err := c.exec(ctx, "waking partitions", sqlWake, partitions)
	return err
}

// checkEpoch returns CodeUnavailable if the database is no longer in the given epoch. The
// statements that ran with ids of that epoch then changed nothing.
func (c *Catalog) checkEpoch(ctx context.Context, epoch int64) error {
	ctx, cancel := c.pool.Bounded(ctx)
	defer cancel()
	var now int64
	if err := c.pool.QueryRow(ctx, sqlEpoch).Scan(&now); err != nil {
		return err
	}
	if now != epoch {
		return &queue.Error{
			Code: queue.CodeUnavailable, RetryAfter: postgres.RetryAfter,
			Message: "the database was started again, or restored, meanwhile; send the request again",
		}
	}
	return nil
}

// ids runs a query that returns ids. what describes it in errors.
func (c *Catalog) ids(ctx context.Context, what, query string, args ...any) ([]int64, error) {
	ctx, cancel := c.pool.Bounded(ctx)
	defer cancel()
	rows, err := c.pool.Query(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return ids, nil
}

// exec runs one statement and returns the number of affected rows. what describes it in errors.
func (c *Catalog) exec(ctx context.Context, what, statement string, args ...any) (int64, error) {
	ctx, cancel := c.pool.Bounded(ctx)
	defer cancel()
	tag, err := c.pool.Exec(ctx, statement, args...)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", what, err)
	}
	return tag.RowsAffected(), nil
}
