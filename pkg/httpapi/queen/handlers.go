package queen

import (
	"context"
	"time"

	"github.com/belfry-mq/belfry/pkg/httpapi/observe"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/insight/stats"
)

// Catalog wakes the pops that wait for a queue.
type Catalog interface {
	Notify(ctx context.Context, queueName, partition string) error
}

// GroupWriter sets where consumer groups start.
type GroupWriter interface {
	SetSubscriptionStart(ctx context.Context, group string, start time.Time) (moved int64, err error)
}

// Resources reads queues and messages.
type Resources interface {
	Queues(ctx context.Context, filter stats.QueueFilter) ([]stats.Queue, error)
	Exists(ctx context.Context, name string) error
	Messages(ctx context.Context, filter stats.MessageFilter) (stats.MessageList, error)
}

// Handlers has one method for each route.
type Handlers struct {
	Catalog     Catalog
	GroupWriter GroupWriter
	Resources   Resources
	History     observe.History
	Switches    observe.Switches
	Spool       observe.Spool
	Listener    func() observe.ListenerState
	// Process is what this process did, and Pool counts its connections.
	Process func() Process
	Pool    func() (size, idle, active int64)
	Bodies  wire.BodyReader
}
