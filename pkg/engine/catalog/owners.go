package catalog

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlLeases   = sql.Query("engine/catalog/owner_leases")
	sqlInFlight = sql.Query("engine/catalog/owner_in_flight")
	sqlTargets  = sql.Query("engine/catalog/owner_targets")
)

// Owners finds the queues and groups of leases and targets. It is safe for concurrent use.
type Owners struct{ pool *postgres.Pool }

// NewOwners returns Owners on pool.
func NewOwners(pool *postgres.Pool) *Owners { return &Owners{pool: pool} }

// Owner is a queue and one of its consumer groups.
type Owner struct{ Queue, Group string }

// Leases returns the queues and groups of each lease that exists. The lease may have expired. Errors:
// CodeUnavailable.
func (o *Owners) Leases(ctx context.Context, ids []queue.ID) (map[queue.ID][]Owner, error) {
	found := make(map[queue.ID][]Owner, len(ids))
	_, err := postgres.Collect(ctx, o.pool, sqlLeases, func(row pgx.CollectableRow) (none struct{}, err error) {
		var id queue.ID
		var owner Owner
		err = row.Scan((*[16]byte)(&id), &owner.Queue, &owner.Group)
		found[id] = append(found[id], owner)
		return none, err
	}, queue.RawIDs(ids))
	return found, postgres.Wrapf(err, "looking up the queues of leases")
}

// LeasePosition is a partition that a lease covers.
type LeasePosition struct {
	Lease     queue.ID
	Partition int64
}

// InFlight returns, for each partition of each live lease, the seq up to which all messages are done, or -1 if
// this seq is unknown. The result has no partition of a lease that has ended. Errors: CodeUnavailable.
func (o *Owners) InFlight(ctx context.Context, leases []queue.ID) (map[LeasePosition]int64, error) {
	found := make(map[LeasePosition]int64, len(leases))
	_, err := postgres.Collect(ctx, o.pool, sqlInFlight, func(row pgx.CollectableRow) (none struct{}, err error) {
		var p LeasePosition
		var done pgtype.Int8
		err = row.Scan((*[16]byte)(&p.Lease), &p.Partition, &done)
		if found[p] = -1; done.Valid {
			found[p] = done.Int64
		}
		return none, err
	}, queue.RawIDs(leases))
	return found, postgres.Wrapf(err, "looking up the partitions of leases")
}

// Names are the names of a group, its queue and a partition. If one of them does not exist, its
// name is empty.
type Names struct{ Queue, Group, Partition string }

// Targets returns the names of groups and partitions, one element for each target. Errors: CodeUnavailable.
func (o *Owners) Targets(ctx context.Context, targets []queue.Target) ([]Names, error) {
	groups, partitions := make([]int64, len(targets)), make([]int64, len(targets))
	for i, target := range targets {
		groups[i], partitions[i] = target.Group, target.Partition
	}
	found := make([]Names, len(targets))
	_, err := postgres.Collect(ctx, o.pool, sqlTargets, func(row pgx.CollectableRow) (none struct{}, err error) {
		var at int64
		var names Names
		err = row.Scan(&at, (*zeronull.Text)(&names.Queue), (*zeronull.Text)(&names.Group), (*zeronull.Text)(&names.Partition))
		if err == nil {
			found[at-1] = names
		}
		return none, err
	}, groups, partitions)
	return found, postgres.Wrapf(err, "looking up the names of groups")
}
