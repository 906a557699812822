package apitest

import (
	"context"
	"time"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/insight/problem"
	"github.com/belfry-mq/belfry/pkg/insight/stats"
	"github.com/belfry-mq/belfry/pkg/insight/totals"
)

// Lists replace the totals, and the lists that read a bounded number of rows.
type Lists struct {
	Pairs []api.TagPair
	Found problem.Found
	// Missing is the answer to whether a queue exists.
	Missing error

	// The parameters of the last calls.
	After   api.TagPair
	From    problem.Position
	Limit   int
	Allowed []string
}

type listsFake struct{ *Lists }

func (l listsFake) Exists(context.Context, string) error { return l.Missing }

func (l listsFake) TagPairs(_ context.Context, after api.TagPair, limit int) ([]api.TagPair, error) {
	l.After, l.Limit = after, limit
	return l.Pairs, nil
}

func (l listsFake) Find(_ context.Context, from problem.Position, limit int, allowed []string) (*problem.Found, error) {
	l.From, l.Limit, l.Allowed = from, limit, allowed
	return &l.Found, nil
}

// totalsFake has the totals of Fakes. A fresh snapshot is Fakes.FreshTotals, if that is set.
type totalsFake struct{ *Fakes }

func (f totalsFake) Read(context.Context) (*totals.Snapshot, error) {
	return &f.Totals, f.Resources.FailWith
}

func (f totalsFake) Fresh(ctx context.Context, _ time.Duration) (*totals.Snapshot, error) {
	if f.FreshTotals != nil {
		return f.FreshTotals, f.Resources.FailWith
	}
	return f.Read(ctx)
}

func (f totalsFake) Expire() {}

func (f totalsFake) Latest() *totals.Snapshot { return &f.Totals }

// SearchPartitions calls Search.
func (f *Fakes) SearchPartitions(_ context.Context, _, part string, from stats.SearchPlace, limit int) ([]stats.FoundPartition, stats.SearchPlace, bool, error) {
	return f.Search(part, from, limit)
}
