// Package deadplane serves the dead letters: lists, counts by error and by partition, purge, and redrive,
// also as a stream that reports its progress.
//
// It promises that a request that is refused with 400 changes nothing. A purge and a redrive refuse unknown
// parameters, because to ignore a misspelled one would select more messages. It declares the interfaces it
// calls. Only pkg/httpapi imports it.
package deadplane

import (
	"context"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/engine/deadletter"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
)

// Letters lists, counts, redrives and purges dead letters.
type Letters interface {
	List(ctx context.Context, f deadletter.Filter, after deadletter.ListKey, limit, offset int64) (deadletter.Page, error)
	Summary(ctx context.Context, f deadletter.Filter, after deadletter.ListKey, bounds deadletter.SummaryBounds) (deadletter.Summary, error)
	Redrive(ctx context.Context, f deadletter.Filter, rate int64, dryRun bool) (deadletter.Result, error)
	RedriveAll(ctx context.Context, f deadletter.Filter, rate int64, report func(deadletter.Result) error) (deadletter.Result, error)
	Move(ctx context.Context, f deadletter.Filter, target string, rate int64, dryRun bool) (deadletter.Result, error)
	Purge(ctx context.Context, f deadletter.Filter, dryRun bool) (deadletter.Result, error)
}

// Handlers has one method for each route.
type Handlers struct {
	Letters Letters
	Bodies  wire.BodyReader
	Streams wire.Streams
	// Report counts and logs the error that ends a stream, and returns its text for the client.
	Report func(c echo.Context, err error) string
}
