package queen

import (
	"context"
	"time"

	"github.com/belfry-mq/belfry/pkg/httpapi/observe"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
)

// Catalog wakes the pops that wait for a queue.
type Catalog interface {
	Notify(ctx context.Context, queueName, partition string) error
}

// GroupWriter sets where consumer groups start.
type GroupWriter interface {
	SetSubscriptionStart(ctx context.Context, group string, start time.Time) (moved int64, err error)
}

// Resources reads and looks for queues.
type Resources interface {
	observe.Resources
	Exists(ctx context.Context, name string) error
}

// Handlers has one method for each route.
type Handlers struct {
	// Observe reads what other routes show too.
	Observe     *observe.Handlers
	Catalog     Catalog
	GroupWriter GroupWriter
	Resources   Resources
	// Process is what this process did, and Pool counts its connections.
	Process func() Process
	Pool    func() (size, idle, active int64)
	Bodies  wire.BodyReader
}
