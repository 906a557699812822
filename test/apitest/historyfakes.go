package apitest

import (
	"context"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/insight/history"
	"github.com/belfry-mq/belfry/pkg/insight/stats"
)

// historyFake replaces pkg/insight/history. It has no history.
type historyFake struct{}

func (historyFake) Sums(context.Context, history.Range, history.Filter) ([]history.Bucket, error) {
	return nil, nil
}

func (historyFake) Percentiles(context.Context, history.Range, history.Filter, bool) (map[history.At]history.Percentiles, error) {
	return nil, nil
}

func (historyFake) Instances(context.Context, history.Range, *string, *string) ([]history.InstanceBucket, error) {
	return nil, nil
}

func (historyFake) Parked(context.Context, history.Range, history.Filter) ([]history.Parked, error) {
	return nil, nil
}

func (historyFake) Backlog(context.Context, history.Range, []string, history.Filter) ([]history.BacklogAt, error) {
	return nil, nil
}

func (historyFake) Queues(context.Context, history.Range, history.Filter) ([]history.Bucket, error) {
	return nil, nil
}

// recentFake has the latest counts of Fakes.
type recentFake struct{ *Fakes }

func (f recentFake) Recent(context.Context) (map[string]history.Recent, error) {
	return f.Fakes.Recent, nil
}

func (f recentFake) Served(context.Context, []history.GroupOf) (map[history.GroupOf]history.Served, error) {
	return f.Fakes.Served, nil
}

// liveFake replaces the parts of pkg/insight/stats that the analytics routes read. It has no queues.
type liveFake struct{}

func (liveFake) Queues(context.Context, stats.QueueFilter) ([]stats.Queue, error) { return nil, nil }

func (liveFake) Leases(context.Context, []string) (stats.Leases, error) { return stats.Leases{}, nil }

func (liveFake) Database(context.Context) (stats.Database, error) { return stats.Database{}, nil }

func (liveFake) Indexes(context.Context) ([]stats.Index, error) { return nil, nil }

func (liveFake) Statements(context.Context) ([]api.ActiveQuery, error) { return nil, nil }

func (liveFake) Tables(context.Context) ([]stats.Table, error) { return nil, nil }

func (liveFake) Settings(context.Context) ([]api.Setting, error) { return nil, nil }

func (liveFake) Slots(context.Context) ([]api.ReplicationSlot, error) { return nil, nil }
