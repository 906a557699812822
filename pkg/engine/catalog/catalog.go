package catalog

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/engine/limit"
	"github.com/belfry-mq/belfry/pkg/engine/seal"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlWake            = sql.Query("engine/store/wake")
	sqlQueuePartitions = sql.Query("engine/catalog/queue_partitions")
	sqlLateness        = sql.Query("engine/catalog/lateness")
)

// pageSize is the maximum number of partitions in one transaction.
const pageSize = 1000

// Catalog runs the administrative verbs. It is safe for concurrent use.
type Catalog struct {
	pool   *postgres.Pool
	sealer *seal.Sealer
	log    *zap.Logger
	events *events.Bus
	limits *limit.Store
	// purgeRequested holds a signal if rows may have to be purged.
	purgeRequested events.Signal

	// recomputePending holds the ids of queues for which Configure stored new options and then
	// failed to recompute ready_at. The next Configure of the queue recomputes ready_at, even if it
	// changes no option.
	recomputePending sync.Map
	// maxUndoable is audit.MaxUndoable, except in tests.
	maxUndoable int64
}

// New returns a Catalog on pool that publishes its changes on bus. sealer says whether this server can
// encrypt; it may be nil.
func New(pool *postgres.Pool, sealer *seal.Sealer, bus *events.Bus, log *zap.Logger) *Catalog {
	return &Catalog{pool: pool, sealer: sealer, log: log, events: bus, limits: limit.NewStore(pool, bus), purgeRequested: events.NewSignal(), maxUndoable: audit.MaxUndoable}
}

// pages yields the partition ids of a queue in ascending order, page by page.
func (c *Catalog) pages(ctx context.Context, queueID int64) iter.Seq2[[]int64, error] {
	return func(yield func([]int64, error) bool) {
		for above := int64(0); ; {
			ids, err := c.ids(ctx, "listing partitions", sqlQueuePartitions, queueID, above, int64(pageSize))
			if err != nil {
				yield(nil, err)
				return
			}
			if len(ids) == 0 || !yield(ids, nil) {
				return
			}
			above = ids[len(ids)-1]
		}
	}
}

// wake makes cursors of the partitions ready if they have messages to deliver.
func (c *Catalog) wake(ctx context.Context, partitions []int64) error {
	_, err := c.exec(ctx, "waking partitions", sqlWake, partitions)
	return err
}

// ids runs a query that returns ids. what describes the query in errors.
func (c *Catalog) ids(ctx context.Context, what, query string, args ...any) ([]int64, error) {
	ids, err := postgres.Collect(ctx, c.pool, query, pgx.RowTo[int64], args...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return ids, nil
}

// exec runs one statement and returns the number of affected rows. what describes the statement in
// errors.
func (c *Catalog) exec(ctx context.Context, what, statement string, args ...any) (int64, error) {
	ctx, cancel := c.pool.Bounded(ctx)
	defer cancel()
	tag, err := c.pool.Exec(ctx, statement, args...)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", what, err)
	}
	return tag.RowsAffected(), nil
}

// latenessTimeout bounds how long a metrics scrape waits for the query.
const latenessTimeout = time.Second

// Lateness says how long ready messages have waited for a consumer.
type Lateness struct {
	// Oldest is the age of the oldest ready message, or 0 if no message is ready. The query reads,
	// for each group, only the partition that has been ready the longest.
	Oldest time.Duration
	// Groups is the number of late groups, as belfry.late_after says.
	Groups int64
}

// Lateness uses lateAfter for queues without maxWaitTimeSeconds. It runs one query that costs O(groups). It returns when ctx ends or after one second.
// Errors: CodeUnavailable.
func (c *Catalog) Lateness(ctx context.Context, lateAfter time.Duration) (Lateness, error) {
	ctx, cancel := context.WithTimeout(ctx, latenessTimeout)
	defer cancel()
	var late Lateness
	err := c.pool.QueryRow(ctx, sqlLateness, lateAfter.Seconds()).Scan((*postgres.Seconds)(&late.Oldest), &late.Groups)
	return late, postgres.Wrapf(err, "reading the age of ready messages")
}

var sqlGroupsOfQueue = sql.Query("engine/catalog/groups_of_queue")

// Notify makes waiting pops of a queue probe again, on all instances: the pops without a partition name
// and, if partition is not empty, the pops of that partition. Errors: CodeUnavailable.
func (c *Catalog) Notify(ctx context.Context, queueName, partition string) error {
	type group struct{ id, partition int64 }
	groups, err := postgres.Collect(ctx, c.pool, sqlGroupsOfQueue, func(row pgx.CollectableRow) (g group, err error) {
		err = row.Scan(&g.id, &g.partition)
		return g, err
	}, queueName, partition)
	if err != nil {
		return postgres.Wrapf(err, "looking up the groups of queue %q", queueName)
	}
	var ready []queue.Ready
	for _, g := range groups {
		ready = append(ready, queue.Ready{Group: g.id})
		if g.partition != 0 {
			ready = append(ready, queue.Ready{Group: g.id, Partition: g.partition})
		}
	}
	c.events.Ready(ready, events.Here)
	return nil
}
