package observe

import (
	"context"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/dispatch"
	"github.com/belfry-mq/belfry/pkg/engine/attach"
	"github.com/belfry-mq/belfry/pkg/engine/deadletter"
	"github.com/belfry-mq/belfry/pkg/engine/inbox"
	"github.com/belfry-mq/belfry/pkg/engine/spool"
	"github.com/belfry-mq/belfry/pkg/engine/store"
	"github.com/belfry-mq/belfry/pkg/engine/stream"
	"github.com/belfry-mq/belfry/pkg/httpapi/lists"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/insight/explain"
	"github.com/belfry-mq/belfry/pkg/insight/history"
	"github.com/belfry-mq/belfry/pkg/insight/live"
	"github.com/belfry-mq/belfry/pkg/insight/problem"
	"github.com/belfry-mq/belfry/pkg/insight/stats"
	"github.com/belfry-mq/belfry/pkg/insight/trace"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Resources reads queues, their namespaces and tasks, the totals of all queues, sweeps and
// messages. allowed has patterns of the queues to read. Nil means all queues.
type Resources interface {
	Queues(ctx context.Context, filter stats.QueueFilter) ([]stats.Queue, error)
	QueueUpTo(ctx context.Context, name string, after *string, limit int, counted *int) (stats.QueueDetail, error)
	Namespaces(ctx context.Context, allowed []string) ([]stats.Tag, error)
	Tasks(ctx context.Context, allowed []string) ([]stats.Tag, error)
	Overview(ctx context.Context, allowed []string) (stats.Overview, error)
	Sweeps(ctx context.Context) ([]api.Sweep, error)
	Messages(ctx context.Context, filter stats.MessageFilter) (stats.MessageList, error)
}

// MessageReader reads one message with the state of each group. *deadletter.Letters implements it.
type MessageReader interface {
	Message(ctx context.Context, partition queue.ID, transactionID string) (deadletter.Message, error)
}

// Queues looks for queues.
type Queues interface {
	// Exists returns CodeNotFound if there is no queue of that name.
	Exists(ctx context.Context, name string) error
}

// Problems finds states that an operator should examine.
type Problems interface {
	Find(ctx context.Context, from problem.Position, limit int, allowed []string) (*problem.Found, error)
}

// GroupReader reads the progress of consumer groups. allowed has patterns of the queues to read. Nil means all queues.
type GroupReader interface {
	List(ctx context.Context, allowed []string) ([]stats.Group, error)
	Group(ctx context.Context, name string, limit int, allowed []string) ([]stats.QueueProgress, error)
	Lagging(ctx context.Context, over time.Duration, limit int, allowed []string) ([]stats.LaggingPartition, error)
}

// Progress reads groups and partitions. A call reads a bounded number of rows. *stats.Groups implements it.
type Progress interface {
	Beginnings(ctx context.Context, queueName, group string, limit int) (stats.Beginnings, error)
	Places(ctx context.Context, queueName, group string, ask stats.PlaceQuery) (stats.Places, error)
	PreviewSeek(ctx context.Context, queueName, group string, to stats.SeekTarget, part stats.SeekPart) (stats.SeekPreview, error)
	Heat(ctx context.Context, queueName string, f stats.HeatFilter) (found []stats.Heat, next *string, err error)
}

// History reads the counts of all instances over time.
type History interface {
	Sums(ctx context.Context, span history.Range, f history.Filter) ([]history.Bucket, error)
	Queues(ctx context.Context, span history.Range, f history.Filter) ([]history.Bucket, error)
	Percentiles(ctx context.Context, span history.Range, f history.Filter, each bool) (map[history.At]history.Percentiles, error)
	Instances(ctx context.Context, span history.Range, hostname, pid *string) ([]history.InstanceBucket, error)
	Parked(ctx context.Context, span history.Range, f history.Filter) ([]history.Parked, error)
	wire.BacklogReader
}

// Live reads the current state of the database. allowed has patterns of the queues to read. Nil means all queues.
type Live interface {
	Queues(ctx context.Context, filter stats.QueueFilter) ([]stats.Queue, error)
	Leases(ctx context.Context, allowed []string) (stats.Leases, error)
	Postgres
}

// Traces lists the traces of messages.
type Traces interface {
	OfMessage(ctx context.Context, partition queue.ID, transactionID string, after trace.Position, limit int64) (found []trace.Trace, cut bool, err error)
	ByName(ctx context.Context, name string, after trace.Position, page trace.Page) (found []trace.NamedTrace, total int64, cut bool, err error)
	Names(ctx context.Context, page trace.Page) ([]api.TraceName, int64, error)
}

// Audit lists the audit.
type Audit interface {
	List(ctx context.Context, f audit.Filter, after audit.Key, limit int64) ([]audit.Row, error)
}

// Streams lists the queries of stream clients.
type Streams interface {
	List(ctx context.Context, after stream.Query, limit int64, allowed []string) ([]stream.Listed, error)
}

// Attachments lists attached tables. allowed has patterns of the queues to read. Nil means all queues.
type Attachments interface {
	List(ctx context.Context, allowed []string, after, limit int64) ([]attach.Attachment, error)
}

// Rejections lists the rejected rows of the inbox.
type Rejections interface {
	List(ctx context.Context, f inbox.RejectedFilter, before, limit int64) (inbox.RejectedList, error)
}

// Switches report whether push maintenance and pop maintenance are on.
type Switches interface {
	// Load reads the switches from the database.
	Load(ctx context.Context) error
	PushPaused() <-chan struct{}
	PopPaused() <-chan struct{}
}

// Spool keeps pushes on disk during push maintenance.
type Spool interface {
	Healthy() error
	Stats() spool.Stats
	Everywhere(ctx context.Context) ([]spool.Held, error)
	Rejections(ctx context.Context, limit int) ([]spool.Rejection, error)
}

// WaitReporter reports the waiting requests.
type WaitReporter interface {
	Status() dispatch.Status
	WaitingFor(target dispatch.WaitingGroup) int
}

// Explainer explains why a group receives a message or does not receive it.
type Explainer interface {
	Explain(ctx context.Context, q explain.Question, in explain.Instance) (explain.Answer, error)
}

// Doctor examines the database and this server.
type Doctor interface {
	Run(ctx context.Context) api.Examination
}

// Meter reports the rates of this instance.
type Meter interface {
	// Throughput returns the messages per second in the last minute.
	Throughput() (ingested, processed float64)
}

// Events is the source of events. *live.Hub implements it.
type Events interface {
	// Watch subscribes to events; see live.Hub.
	Watch(f live.Filter, after string) (*live.Watcher, error)
}

// Handlers has one method for each route.
type Handlers struct {
	Waiting     WaitReporter
	Resources   Resources
	Queues      Queues
	Totals      lists.Counter
	Problems    Problems
	Groups      GroupReader
	Progress    Progress
	History     History
	Live        Live
	Reader      MessageReader
	Traces      Traces
	Audit       Audit
	Owners      wire.Owners
	Queries     Streams
	Attachments Attachments
	Rejections  Rejections
	Switches    Switches
	Spool       Spool
	Explainer   Explainer
	Doctor      Doctor
	Listener    func() ListenerState
	Inbox       func(ctx context.Context) (api.Inbox, error)
	Flushes     func() []store.Flushes
	Meter       Meter
	Events      Events
	// Streams has the values that all streams share.
	Streams wire.Streams
	// SeesAudit reports whether the request may read the audit.
	SeesAudit func(c echo.Context) bool
	// Holders remembers which senders took the latest leases at this instance.
	Holders *wire.Holders
}
