package apitest

import (
	"context"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/insight/problem"
	"github.com/belfry-mq/belfry/pkg/insight/stats"
)

// Lists replaces the queries for lists of queues, tags and problems.
type Lists struct {
	Page  stats.QueuePage
	Pairs []api.TagPair
	Found problem.Found

	// These fields are the parameters of the last calls.
	Filter  stats.QueuePageFilter
	After   api.TagPair
	From    problem.Position
	Limit   int
	Allowed []string
}

type listsFake struct{ *Lists }

func (l listsFake) QueuePage(_ context.Context, filter stats.QueuePageFilter) (stats.QueuePage, error) {
	l.Filter = filter
	return l.Page, nil
}

func (l listsFake) TagPairs(_ context.Context, after api.TagPair, limit int) ([]api.TagPair, error) {
	l.After, l.Limit = after, limit
	return l.Pairs, nil
}

func (l listsFake) Find(_ context.Context, from problem.Position, limit int, allowed []string) (*problem.Found, error) {
	l.From, l.Limit, l.Allowed = from, limit, allowed
	return &l.Found, nil
}
