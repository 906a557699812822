package operate

import (
	"context"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/engine/catalog"
	"github.com/belfry-mq/belfry/pkg/engine/deadletter"
	"github.com/belfry-mq/belfry/pkg/engine/inbox"
	"github.com/belfry-mq/belfry/pkg/engine/maintenance"
	"github.com/belfry-mq/belfry/pkg/engine/redrivejob"
	"github.com/belfry-mq/belfry/pkg/httpapi/deadletters"
	"github.com/belfry-mq/belfry/pkg/httpapi/observe"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Catalog configures, pauses and deletes queues.
type Catalog interface {
	Configure(ctx context.Context, settings catalog.Settings) (catalog.Configured, error)
	Change(ctx context.Context, queueName string, change func(set *catalog.Settings)) (catalog.Settings, catalog.Configured, error)
	Delete(ctx context.Context, queueName string) (existed bool, err error)
	SetPaused(ctx context.Context, what catalog.Pausable, paused bool, reason string) (changed bool, err error)
	Pauses(ctx context.Context, queueName *string, allowed []string, limit int64) ([]catalog.Paused, error)
	FindUndo(ctx context.Context, id queue.ID) (catalog.Undoable, error)
	PreviewUndo(ctx context.Context, u *catalog.Undoable) (catalog.Undone, error)
	Undo(ctx context.Context, u *catalog.Undoable) (catalog.Undone, error)
}

// GroupWriter deletes and seeks consumer groups.
type GroupWriter interface {
	DeleteGroup(ctx context.Context, group string, queueName *string, keepSubscription bool) (catalog.DeletedGroup, error)
	Seek(ctx context.Context, queueName, group string, place catalog.Position) (moved int64, err error)
	SeekPartition(ctx context.Context, queueName, group, partition string, place catalog.Position) (catalog.PartitionSeek, error)
}

// DeadLetters reads, redrives, retries, moves, purges and deletes dead letters and single messages.
type DeadLetters interface {
	observe.MessageReader
	deadletters.Letters
	deadletters.Discarder
	Attempts(ctx context.Context, partition queue.ID, transactionID string, group *string) ([]deadletter.Attempt, error)
	Resent(ctx context.Context, partition queue.ID, transactionID string) ([]deadletter.Resent, error)
	Retry(ctx context.Context, partition queue.ID, transactionID string, group *string) (int64, error)
	Reschedule(ctx context.Context, partition queue.ID, transactionID string, to deadletter.Instant) (deadletter.Rescheduled, error)
	Delete(ctx context.Context, partition queue.ID, transactionID string) (existed bool, err error)
	Redrive(ctx context.Context, f deadletter.Filter, rate int64, dryRun bool) (deadletter.Result, error)
	RedriveAll(ctx context.Context, f deadletter.Filter, rate int64, report func(deadletter.Result) error) (deadletter.Result, error)
	Move(ctx context.Context, f deadletter.Filter, target string, rate int64, dryRun bool) (deadletter.Result, error)
	Purge(ctx context.Context, f deadletter.Filter, dryRun bool) (deadletter.Result, error)
	PurgeTo(ctx context.Context, f deadletter.Filter, write func([]deadletter.Letter) error) (deadletter.Result, error)
	Count(ctx context.Context, f deadletter.Filter, report func(n int64) error) (deadletter.AsOf, error)
}

// Jobs starts, lists and stops redrives that the instances run. *redrivejob.Jobs implements it.
type Jobs interface {
	Start(ctx context.Context, f deadletter.Filter, rate int64) (redrivejob.Job, error)
	Get(ctx context.Context, id queue.ID) (redrivejob.Job, error)
	List(ctx context.Context, allowed []string, limit int64) ([]redrivejob.Job, error)
	Stop(ctx context.Context, id queue.ID) error
}

// Rejections lists, retries and discards the rejected rows of the inbox.
type Rejections interface {
	observe.Rejections
	Retry(ctx context.Context, f inbox.RejectedFilter) (rows int64, more bool, err error)
	Discard(ctx context.Context, f inbox.RejectedFilter) (rows int64, more bool, err error)
}

// Transactor applies operations in one database transaction.
type Transactor interface {
	Transact(ctx context.Context, tx *queue.Transaction) (queue.TransactionResult, error)
}

// Streams lists and deletes the queries of stream clients.
type Streams interface {
	observe.Streams
	Source(ctx context.Context, id queue.ID) (source string, found bool, err error)
	Delete(ctx context.Context, id queue.ID) (existed bool, err error)
}

// Switches turn push maintenance and pop maintenance on and off.
type Switches interface {
	observe.Switches
	Set(ctx context.Context, name maintenance.Switch, enabled bool) error
}

// Spool keeps pushes on disk during push maintenance.
type Spool interface {
	observe.Spool
	Retry() (int, error)
	Discard() (int, error)
}

// Meter counts acknowledgments.
type Meter interface {
	Acknowledged(items []queue.AckItem, results []queue.AckResult)
}

// Handlers has one method for each route.
type Handlers struct {
	Transactor  Transactor
	Catalog     Catalog
	GroupWriter GroupWriter
	DeadLetters DeadLetters
	Jobs        Jobs
	Rejections  Rejections
	Owners      wire.Owners
	Queries     Streams
	Switches    Switches
	Spool       Spool
	Meter       Meter
	Rights      Rights
	// Verify returns the principal of a token, or an error. It is nil if the server requires no tokens.
	Verify   func(ctx context.Context, text string) (*identity.Principal, error)
	Defaults queue.Defaults
	Bodies   wire.BodyReader
	// Streams has the values that all streams share.
	Streams wire.Streams
	// Report counts and logs an error that ends a stream, and returns the text for the client.
	Report func(c echo.Context, err error) string
}
