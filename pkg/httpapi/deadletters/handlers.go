package deadletters

import (
	"context"

	"github.com/belfry-mq/belfry/pkg/engine/deadletter"
	"github.com/belfry-mq/belfry/pkg/httpapi/lists"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
)

// Letters reads and counts dead letters. *deadletter.Letters implements it.
type Letters interface {
	List(ctx context.Context, f deadletter.Filter, after deadletter.ListKey, limit, offset int64) (deadletter.Page, error)
	Summary(ctx context.Context, f deadletter.Filter, after deadletter.ListKey, bounds deadletter.SummaryBounds) (deadletter.Summary, error)
}

// Handlers has one method for each route.
type Handlers struct {
	Letters   Letters
	Discarder Discarder
	Owners    wire.Owners
	Totals    lists.Counter
}
