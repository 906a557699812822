// Package historyplane serves the routes of status and analytics, which dashboards read: what all
// instances did in the last minutes, hours and days.
//
// It promises that a request reads a bounded number of buckets, and that a token with grants sees the
// counts of its queues only, and no figures of processes.
//
// docs/compatibility.md lists the members that have no meaning in Belfry. They are 0 or empty. The package
// declares the interfaces it calls. Only pkg/httpapi imports it.
package historyplane

import (
	"context"

	"github.com/belfry-mq/belfry/pkg/insight/history"
	"github.com/belfry-mq/belfry/pkg/insight/stats"
)

// History reads what instances counted.
type History interface {
	Sums(ctx context.Context, span history.Range, f history.Filter) ([]history.Bucket, error)
	Queues(ctx context.Context, span history.Range, f history.Filter) ([]history.Bucket, error)
	Percentiles(ctx context.Context, span history.Range, f history.Filter, each bool) (map[history.At]history.Percentiles, error)
	Instances(ctx context.Context, span history.Range, hostname, pid *string) ([]history.InstanceBucket, error)
	Parked(ctx context.Context, span history.Range, f history.Filter) ([]history.Parked, error)
}

// Live reads what the database holds now. allowed are patterns of the queues to read. Nil: all.
type Live interface {
	Queues(ctx context.Context, filter stats.QueueFilter) ([]stats.Queue, error)
	Leases(ctx context.Context, allowed []string) (stats.Leases, error)
	Postgres
}

// Handlers has one method for each route.
type Handlers struct {
	History History
	Live    Live
}
