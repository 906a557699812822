package wire

import (
	"context"

	"github.com/belfry-mq/belfry/pkg/engine/catalog"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Owners finds the queues of ids, for the check of grants. If the grants do not allow a queue, a handler
// answers as if the id did not exist. Both cases need the same query. So neither the answer nor its
// duration reveals whether the id exists.
type Owners interface {
	// QueuesOf returns the queue of each existing partition; see store.Store.
	QueuesOf(ctx context.Context, ids []queue.ID, allowed func(at int, queueName string) bool) (map[queue.ID]string, error)
	// InFlight returns the partitions and positions that live leases cover; see catalog.Owners.
	InFlight(ctx context.Context, leases []queue.ID) (map[catalog.LeasePosition]int64, error)
	// Targets returns the names of the group and the partition of each target.
	Targets(ctx context.Context, targets []queue.Target) ([]catalog.Names, error)
	// Leases returns the queues and groups of each existing lease, including expired leases.
	Leases(ctx context.Context, ids []queue.ID) (map[queue.ID][]catalog.Owner, error)
}
