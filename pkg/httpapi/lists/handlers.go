package lists

import (
	"context"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/insight/history"
)

// Tags reads the pairs of namespaces and tasks.
type Tags interface {
	TagPairs(ctx context.Context, after api.TagPair, limit int) ([]api.TagPair, error)
}

// History reads what all instances did a short time ago.
type History interface {
	// Recent returns the latest counts of each queue.
	Recent(ctx context.Context) (map[string]history.Recent, error)
	// Served returns what instances do for groups.
	Served(ctx context.Context, groups []history.GroupOf) (map[history.GroupOf]history.Served, error)
}

// Handlers has one method for each route.
type Handlers struct {
	Totals  Counter
	Tags    Tags
	History History
	// Partitions searches the partitions of a queue.
	Partitions Partitions
}
