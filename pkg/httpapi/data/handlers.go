package data

import (
	"context"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/httpapi/sent"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/insight/trace"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Verbs are the verbs that do not wait for messages.
type Verbs interface {
	Ack(ctx context.Context, items []queue.AckItem) ([]queue.AckResult, error)
	Extend(ctx context.Context, lease queue.ID, d time.Duration) (time.Time, error)
	Transact(ctx context.Context, tx *queue.Transaction) (queue.TransactionResult, error)
}

// Popper answers pops. Pop blocks until a message arrives, the wait of the request has
// passed or ctx ends.
type Popper interface {
	Pop(ctx context.Context, req *queue.PopRequest) (*queue.Delivery, error)
	Release(ctx context.Context, delivery *queue.Delivery)
}

// Pusher stores pushed messages, or keeps them on disk during push maintenance.
type Pusher interface {
	Push(ctx context.Context, items []queue.PushItem) ([]queue.PushResult, error)
}

// Meter counts the messages of each verb.
type Meter interface {
	Pushed(items []queue.PushItem, results []queue.PushResult)
	// Transacted counts the operations of an applied transaction.
	Transacted(tx *queue.Transaction, result *queue.TransactionResult)
	Delivered(delivery *queue.Delivery)
	// Empty counts a pop that is answered without a message.
	Empty(req *queue.PopRequest)
	Acknowledged(items []queue.AckItem, results []queue.AckResult)
}

// Traces stores the traces of messages.
type Traces interface {
	Add(ctx context.Context, e trace.Event) (queue.ID, error)
}

// Handlers has one method for each route.
type Handlers struct {
	Pusher   Pusher
	Verbs    Verbs
	Popper   Popper
	Owners   wire.Owners
	Queries  Streams
	Traces   Traces
	Meter    Meter
	Defaults queue.Defaults
	Bodies   wire.BodyReader
	Limits   Limits
	// InFlight has the unacknowledged messages of all streams. Streams has the values that all streams share.
	InFlight *sent.Messages
	Streams  wire.Streams
	// Holders remembers which sender took a lease.
	Holders *wire.Holders
	// Report counts and logs an error that ends a stream, and returns the text for the client.
	Report func(c echo.Context, err error) string
}
