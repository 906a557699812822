package catalog

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var sqlGroupsOfQueue = sql.Query("engine/catalog/groups_of_queue")

// Notify makes the pops that wait for a queue look again, on all instances: those for any partition, and
// those for the named one if partition is not empty. A queue without groups has none. Errors:
// CodeUnavailable.
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
