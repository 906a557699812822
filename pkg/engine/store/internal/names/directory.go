package names

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/engine/store/internal/pipeline"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/scanfloor"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/wake"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlOpenPartitions  = sql.Query("engine/store/open_partitions")
	sqlFindPartitions  = sql.Query("engine/store/find_partitions")
	sqlKnownPartitions = sql.Query("engine/store/known_partitions")
	sqlEpoch           = sql.Query("engine/store/epoch")
)

// openAttempts is the number of attempts of Open for names that are missing in the answer.
const openAttempts = 5

// Directory finds, creates and caches partitions and groups. It is safe for concurrent use.
type Directory struct {
	pool     *postgres.Pool
	bus      *events.Bus
	waker    *wake.Waker
	floors   *scanfloor.Floors
	defaults queue.Defaults
	log      *zap.Logger
	cache    *cache
	// joins makes the groups of a queue register one after the other on this instance. A registration
	// locks the row of the queue, and so does the creation of a partition.
	joins keyedMutex
	// runs are the joins that run on this instance.
	runs joinRuns
}

// Deps are the dependencies of a Directory.
type Deps struct {
	Pool   *postgres.Pool
	Events *events.Bus
	Waker  *wake.Waker
	Floors *scanfloor.Floors
	// Defaults are the options of queues that Open creates.
	Defaults queue.Defaults
	Log      *zap.Logger
}

// New returns an empty Directory. Close it after the last call.
func New(deps Deps) *Directory {
	d := &Directory{
		pool: deps.Pool, bus: deps.Events, waker: deps.Waker, floors: deps.Floors, defaults: deps.Defaults, log: deps.Log, cache: newCache(),
	}
	d.runs.start()
	return d
}

// Open returns the partitions of the given names and creates the missing ones, with their queues and tenants.
func (d *Directory) Open(ctx context.Context, wanted []PartitionName, tenants map[PartitionName]string) (map[PartitionName]*queue.Partition, error) {
	found := make(map[PartitionName]*queue.Partition, len(wanted))
	// The answer leaves out partitions of a queue that is deleted at the same time. The next attempt
	// creates a new queue.
	for range openAttempts {
		missing := remembered(d.cache, wanted, found, func(c *cache) map[PartitionName]*queue.Partition { return c.byName })
		if len(missing) == 0 {
			return found, nil
		}
		opened, created, err := d.open(ctx, missing, tenants)
		if err != nil {
			return nil, err
		}
		d.resyncIf(d.cache.add(opened))
		for _, p := range opened {
			found[PartitionName{p.Queue, p.Name}] = p
		}
		for name, partitions := range created {
			d.bus.Created(name.Queue, name.Partition, events.Here)
			d.bus.PartitionsCreated(name.Queue, partitions)
		}
	}
	return nil, fmt.Errorf("opening partitions of queue %q: the queue was deleted during each of %d attempts", wanted[0].Queue, openAttempts)
}

// open finds or creates partitions by a query. created counts the new partitions by name. The
// partitions of a new queue are counted together under an empty partition name.
func (d *Directory) open(
	ctx context.Context, missing []PartitionName, tenants map[PartitionName]string,
) (opened []*queue.Partition, created map[PartitionName]int, err error) {
	queues, partitions := make([]string, len(missing)), make([]string, len(missing))
	for i, name := range missing {
		queues[i], partitions[i] = name.Queue, name.Partition
		// If many sessions lock a row in share mode one after the other, a session that needs an
		// exclusive lock on the row may wait forever. So the creation waits for registrations of groups
		// first.
		if err := d.joins.Wait(ctx, name.Queue); err != nil {
			return nil, nil, err
		}
	}
	options, more := d.defaults.Options(), d.defaults.Extensions()
	rows, _ := d.pool.Query(ctx, sqlOpenPartitions, queues, partitions, options.LeaseTime, options.RetryLimit,
		options.RetryDelay, more.RetryBackoff, more.RetryDelayMax, tenantsOf(missing, tenants)) // rows hold the error
	created = map[PartitionName]int{}
	opened, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (*queue.Partition, error) {
		p := &queue.Partition{}
		var isNew, queueIsNew bool
		err := row.Scan(&p.Queue, &p.Name, &p.QueueKey, &p.Key, (*[16]byte)(&p.ID), &p.Sealed, &p.Bounded, &isNew, &queueIsNew, &p.Epoch)
		switch {
		case isNew && queueIsNew:
			created[PartitionName{Queue: p.Queue}]++
		case isNew:
			created[PartitionName{p.Queue, p.Name}]++
		}
		return p, err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("opening %d partitions: %w", len(missing), err)
	}
	return opened, created, nil
}

// tenantsOf returns the tenant of each partition, or NULL for a partition without one. It returns nil if no partition has one.
func tenantsOf(missing []PartitionName, tenants map[PartitionName]string) []*string {
	if len(tenants) == 0 {
		return nil
	}
	all := make([]*string, len(missing))
	for i, name := range missing {
		if tenant, ok := tenants[name]; ok {
			all[i] = &tenant
		}
	}
	return all
}

// Forget removes partitions that do not exist any more from the cache.
func (d *Directory) Forget(deleted []*queue.Partition) { d.cache.forget(deleted) }

// Remember adds partitions to the cache.
func (d *Directory) Remember(found ...*queue.Partition) { d.resyncIf(d.cache.add(found)) }

// Known returns those partitions of the given names that exist.
func (d *Directory) Known(ctx context.Context, wanted []PartitionName) (map[PartitionName]*queue.Partition, error) {
	found := make(map[PartitionName]*queue.Partition, len(wanted))
	missing := remembered(d.cache, wanted, found, func(c *cache) map[PartitionName]*queue.Partition { return c.byName })
	if len(missing) == 0 {
		return found, nil
	}
	queues, partitions := make([]string, len(missing)), make([]string, len(missing))
	for i, name := range missing {
		queues[i], partitions[i] = name.Queue, name.Partition
	}
	fresh, err := d.read(ctx, sqlKnownPartitions, len(missing), queues, partitions)
	for _, p := range fresh {
		found[PartitionName{p.Queue, p.Name}] = p
	}
	return found, err
}

// ByKeys returns the existing partitions with the given database ids, which are valid in epoch.
func (d *Directory) ByKeys(ctx context.Context, epoch queue.Epoch, keys []int64) (map[int64]*queue.Partition, error) {
	found := make(map[int64]*queue.Partition, len(keys))
	missing := remembered(d.cache, keys, found, func(c *cache) map[int64]*queue.Partition {
		if c.epoch != epoch {
			return nil
		}
		return c.byKey
	})
	fresh, err := d.find(ctx, missing, nil)
	for _, p := range fresh {
		if p.Epoch == epoch {
			found[p.Key] = p
		}
	}
	return found, err
}

// ByIDs returns the existing partitions of the given wire ids.
func (d *Directory) ByIDs(ctx context.Context, ids []queue.ID) (map[queue.ID]*queue.Partition, error) {
	found := make(map[queue.ID]*queue.Partition, len(ids))
	missing := remembered(d.cache, ids, found, func(c *cache) map[queue.ID]*queue.Partition { return c.byID })
	fresh, err := d.find(ctx, nil, missing)
	for _, p := range fresh {
		found[p.ID] = p
	}
	return found, err
}

// QueuesOf returns the queues of the given wire ids; see Store.QueuesOf.
func (d *Directory) QueuesOf(ctx context.Context, ids []queue.ID, allowed func(at int, queueName string) bool) (map[queue.ID]string, error) {
	known, queues := map[queue.ID]*queue.Partition{}, make(map[queue.ID]string, len(ids))
	var unknown []queue.ID
	remembered(d.cache, ids, known, func(c *cache) map[queue.ID]*queue.Partition { return c.byID })
	for at, id := range ids {
		if p := known[id]; p != nil && allowed(at, p.Queue) {
			queues[id] = p.Queue
		} else {
			unknown = append(unknown, id)
		}
	}
	fresh, err := d.find(ctx, nil, unknown)
	for _, p := range fresh {
		queues[p.ID] = p.Queue
	}
	return queues, err
}

// find finds partitions by a query, and caches them.
func (d *Directory) find(ctx context.Context, keys []int64, ids []queue.ID) ([]*queue.Partition, error) {
	n := len(keys) + len(ids)
	if n == 0 {
		return nil, nil
	}
	return d.read(ctx, sqlFindPartitions, n, pipeline.Array(keys), queue.RawIDs(ids))
}

// read runs a query for n partitions, and caches its result.
func (d *Directory) read(ctx context.Context, query string, n int, args ...any) ([]*queue.Partition, error) {
	rows, _ := d.pool.Query(ctx, query, args...) // rows hold the error
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (*queue.Partition, error) {
		p := &queue.Partition{}
		err := row.Scan(&p.Key, (*[16]byte)(&p.ID), &p.Name, &p.QueueKey, &p.Queue, &p.Sealed, &p.Bounded, &p.Epoch)
		return p, err
	})
	if err != nil {
		return nil, fmt.Errorf("looking up %d partitions: %w", n, err)
	}
	d.Remember(found...)
	return found, nil
}

// EpochEnded asks the database whether epoch has ended. If it has ended, EpochEnded clears the cache.
// It returns false if the query fails, because then the next statement of the caller fails too.
func (d *Directory) EpochEnded(ctx context.Context, epoch queue.Epoch) bool {
	var now queue.Epoch
	if err := d.pool.QueryRow(ctx, sqlEpoch).Scan(&now); err != nil {
		return false
	}
	d.resyncIf(d.cache.enter(now))
	return now != epoch
}

// resyncIf makes every waiting request probe again if the epoch changed, because the ids that
// requests wait for may belong to other partitions and groups.
func (d *Directory) resyncIf(epochChanged bool) {
	if epochChanged {
		d.log.Info("Postgres was restarted, or the tables were restored or recreated; all cached ids were dropped")
		d.waker.Resync("the epoch of the database changed")
	}
}
