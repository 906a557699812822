// Package adminplane serves the requests of operators and dashboards: queues,
// consumer groups, messages, traces, the audit and the status of the server.
//
// It promises that a request that is refused with 400 changes nothing.
//
// docs/compatibility.md lists the answers that clients of Queen MQ expect. The
// package declares the interfaces it calls. Only pkg/httpapi imports it.
package adminplane

import (
	"context"
	"time"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/dispatch"
	"github.com/belfry-mq/belfry/pkg/engine/catalog"
	"github.com/belfry-mq/belfry/pkg/engine/deadletter"
	"github.com/belfry-mq/belfry/pkg/engine/maintenance"
	"github.com/belfry-mq/belfry/pkg/engine/spool"
	"github.com/belfry-mq/belfry/pkg/engine/store"
	"github.com/belfry-mq/belfry/pkg/engine/stream"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/insight/doctor"
	"github.com/belfry-mq/belfry/pkg/insight/explain"
	"github.com/belfry-mq/belfry/pkg/insight/stats"
	"github.com/belfry-mq/belfry/pkg/insight/trace"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Catalog configures, pauses and deletes queues, and wakes the pops that wait for one.
type Catalog interface {
	Configure(ctx context.Context, settings catalog.Settings) (catalog.Configured, error)
	Change(ctx context.Context, queueName string, change func(set *catalog.Settings)) (catalog.Settings, catalog.Configured, error)
	Delete(ctx context.Context, queueName string) (existed bool, err error)
	SetPaused(ctx context.Context, what catalog.Pausable, paused bool) (changed bool, err error)
	Notify(ctx context.Context, queueName, partition string) error
}

// GroupWriter deletes consumer groups, seeks them, and sets where they start.
type GroupWriter interface {
	DeleteGroup(ctx context.Context, group string, queueName *string, keepSubscription bool) (catalog.DeletedGroup, error)
	SetSubscriptionStart(ctx context.Context, group string, start time.Time) (moved int64, err error)
	Seek(ctx context.Context, queueName, group string, place catalog.Position) (moved int64, err error)
	SeekPartition(ctx context.Context, queueName, group, partition string, place catalog.Position) (catalog.PartitionSeek, error)
}

// Resources reads queues, their namespaces and tasks, the totals of all queues, sweeps and
// messages. allowed are patterns of the queues to read. Nil: all.
type Resources interface {
	Queues(ctx context.Context, filter stats.QueueFilter) ([]stats.Queue, error)
	QueueUpTo(ctx context.Context, name string, after *string, limit int, counted *int) (stats.QueueDetail, error)
	Exists(ctx context.Context, name string) error
	Namespaces(ctx context.Context, allowed []string) ([]stats.Tag, error)
	Tasks(ctx context.Context, allowed []string) ([]stats.Tag, error)
	Overview(ctx context.Context, allowed []string) (stats.Overview, error)
	Sweeps(ctx context.Context) ([]stats.Sweep, error)
	Messages(ctx context.Context, filter stats.MessageFilter) (stats.MessageList, error)
}

// DeadLetters reads, retries and deletes a single message, whether it is a dead letter or not.
type DeadLetters interface {
	Message(ctx context.Context, partition queue.ID, transactionID string) (deadletter.Message, error)
	Retry(ctx context.Context, partition queue.ID, transactionID string, group *string) (int64, error)
	Delete(ctx context.Context, partition queue.ID, transactionID string) (existed bool, err error)
}

// Traces stores and lists the traces of messages.
type Traces interface {
	Add(ctx context.Context, e trace.Event) (queue.ID, error)
	OfMessage(ctx context.Context, partition queue.ID, transactionID string, after trace.Position, limit int64) (found []trace.Trace, cut bool, err error)
	ByName(ctx context.Context, name string, after trace.Position, page trace.Page) (found []trace.NamedTrace, total int64, cut bool, err error)
	Names(ctx context.Context, page trace.Page) ([]trace.NameCount, int64, error)
}

// Transactor applies operations in a database transaction of their own.
type Transactor interface {
	Transact(ctx context.Context, tx *queue.Transaction) (queue.TransactionResult, error)
}

// Audit lists the audit, and completes the row of a request.
type Audit interface {
	List(ctx context.Context, f audit.Filter, after audit.Key, limit int64) ([]audit.Row, error)
	Finish(ctx context.Context, e *audit.Entry, result string)
}

// Streams lists and deletes the queries of stream clients.
type Streams interface {
	List(ctx context.Context, after stream.Query, limit int64, allowed []string) ([]stream.Listed, error)
	Source(ctx context.Context, id queue.ID) (source string, found bool, err error)
	Delete(ctx context.Context, id queue.ID) (existed bool, err error)
}

// Switches are the switches for maintenance.
type Switches interface {
	// Load reads the switches from the database.
	Load(ctx context.Context) error
	PushPaused() <-chan struct{}
	PopPaused() <-chan struct{}
	Set(ctx context.Context, name maintenance.Switch, enabled bool) error
}

// Spool keeps pushes on disk during push maintenance.
type Spool interface {
	Healthy() error
	Stats() spool.Stats
	Everywhere(ctx context.Context) ([]spool.Held, error)
	Rejections(ctx context.Context, limit int) ([]spool.Rejection, error)
	Retry() (int, error)
	Discard() (int, error)
}

// WaitReporter reports the requests that wait for messages.
type WaitReporter interface {
	Status() dispatch.Status
	WaitingFor(target dispatch.WaitingGroup) int
}

// Explainer says why a group receives, or does not receive, a message.
type Explainer interface {
	Explain(ctx context.Context, q explain.Question, in explain.Instance) (explain.Answer, error)
}

// Doctor examines the database and this server.
type Doctor interface {
	Run(ctx context.Context) doctor.Report
}

// Meter counts acknowledgments and knows the rates of this instance.
type Meter interface {
	Acknowledged(items []queue.AckItem, results []queue.AckResult)
	// Throughput returns the messages per second of the last minute.
	Throughput() (ingested, processed float64)
}

// Handlers has one method for each route of the admin plane.
type Handlers struct {
	Transactor  Transactor
	Waiting     WaitReporter
	Catalog     Catalog
	GroupWriter GroupWriter
	Resources   Resources
	DeadLetters DeadLetters
	Traces      Traces
	Audit       Audit
	Owners      wire.Owners
	Streams     Streams
	Switches    Switches
	Explainer   Explainer
	Doctor      Doctor
	Spool       Spool
	Listener    func() ListenerState
	Inbox       func(ctx context.Context) (InboxState, error)
	Flushes     func() []store.Flushes
	Meter       Meter
	Defaults    queue.Defaults
	Bodies      wire.BodyReader
}
