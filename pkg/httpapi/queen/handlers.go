package queen

import (
	"context"
	"time"

	"github.com/belfry-mq/belfry/pkg/httpapi/observe"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
)

// Catalog wakes the waiting pops of a queue.
type Catalog interface {
	Notify(ctx context.Context, queueName, partition string) error
}

// GroupWriter sets the start position of consumer groups.
type GroupWriter interface {
	SetSubscriptionStart(ctx context.Context, group string, start time.Time) (moved int64, err error)
}

// Resources reads queues and checks whether a queue exists.
type Resources interface {
	observe.Resources
	Exists(ctx context.Context, name string) error
}

// Handlers has one method for each route.
type Handlers struct {
	// Observe reads the figures that other routes show too.
	Observe     *observe.Handlers
	Catalog     Catalog
	GroupWriter GroupWriter
	Resources   Resources
	// Process returns the figures of this process. Pool counts its connections to the database.
	Process func() Process
	Pool    func() (size, idle, active int64)
	Bodies  wire.BodyReader
}
