package wire

import (
	"context"

	"github.com/belfry-mq/belfry/pkg/engine/catalog"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Owners finds the queues of what a request names by an id, for the check of grants. A handler treats
// what the grants do not allow like what does not exist. Both need the same query, so an answer does not
// tell them apart, also by its time.
type Owners interface {
	// QueuesOf returns the queue of each partition that exists; see store.Store.
	QueuesOf(ctx context.Context, ids []queue.ID, may func(at int, queueName string) bool) (map[queue.ID]string, error)
	// InFlight returns what live leases cover; see catalog.Owners.
	InFlight(ctx context.Context, leases []queue.ID) (map[catalog.LeasePosition]int64, error)
	// Targets returns the names of groups and partitions, one element for each target.
	Targets(ctx context.Context, targets []queue.Target) ([]catalog.Names, error)
	// Leases returns the queues and groups of each lease that exists. The lease may have expired.
	Leases(ctx context.Context, ids []queue.ID) (map[queue.ID][]catalog.Owner, error)
}
