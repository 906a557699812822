package httpapi

import (
	"context"
	"net/http"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/engine/store"
	"github.com/belfry-mq/belfry/pkg/httpapi/data"
	"github.com/belfry-mq/belfry/pkg/httpapi/flow"
	"github.com/belfry-mq/belfry/pkg/httpapi/lists"
	"github.com/belfry-mq/belfry/pkg/httpapi/observe"
	"github.com/belfry-mq/belfry/pkg/httpapi/operate"
	"github.com/belfry-mq/belfry/pkg/httpapi/queen"
	"github.com/belfry-mq/belfry/pkg/httpapi/schedules"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Popper answers pops and reports the waiting pops.
type Popper interface {
	data.Popper
	observe.WaitReporter
	// Waiting returns the number of waiting pops.
	Waiting() int
}

// ListenerState describes the LISTEN connection.
type ListenerState = observe.ListenerState

// Catalog configures, pauses and deletes queues, and wakes the waiting pops of a queue.
type Catalog interface {
	flow.Blocks
	operate.Catalog
	queen.Catalog
}

// GroupWriter deletes and seeks consumer groups, and sets their start position.
type GroupWriter interface {
	operate.GroupWriter
	queen.GroupWriter
}

// Streams stores the queries of stream clients.
type Streams interface {
	data.Streams
	operate.Streams
}

// Traces stores and lists the traces of messages.
type Traces interface {
	data.Traces
	observe.Traces
}

// Audit lists the audit, and completes the row of a request.
type Audit interface {
	observe.Audit
	Finish(ctx context.Context, e *audit.Entry, result string)
}

// Events collects events for watchers. *live.Hub implements it.
type Events interface {
	observe.Events
	// Audited records that a row of the audit may have been written.
	Audited()
}

// Deps are the packages and values that the handlers of the routes use.
type Deps struct {
	Pusher data.Pusher
	// Verbs acknowledge, extend leases and run transactions.
	Verbs data.Verbs
	// Auth verifies tokens. If it is nil, requests need no token.
	Auth        Authenticator
	Popper      Popper
	Catalog     Catalog
	GroupWriter GroupWriter
	GroupReader observe.GroupReader
	// Progress reads groups and partitions. A call reads a bounded number of rows.
	Progress  observe.Progress
	Resources queen.Resources
	// Totals count the messages of all queues and groups.
	Totals lists.Counter
	// Queues looks for queues and tags. Problems reads a bounded number of rows.
	Queues      observe.Queues
	Tags        lists.Tags
	Recent      lists.History
	Partitions  lists.Partitions
	Problems    observe.Problems
	DeadLetters operate.DeadLetters
	Traces      Traces
	Audit       Audit
	// Texts replaces characters that the database cannot store in the audit. Nil means that the database has the encoding UTF8.
	Texts audit.Texts
	// Confirm waits until all visible changes of the database are on disk and on the synchronous standbys. A handler may have
	// nothing to change because an earlier call made the change. The commit of that call may still wait: see postgres.Confirm.
	Confirm   func(ctx context.Context) error
	Explainer observe.Explainer
	// Events collects events for watchers.
	Events Events
	Doctor observe.Doctor
	// Attachments and Rejections are for producers that write with SQL.
	Attachments observe.Attachments
	Rejections  operate.Rejections
	// Owners find the queue of a partition or lease, for checks of grants.
	Owners  wire.Owners
	Streams Streams
	// History and Live have the figures for the routes of status and analytics.
	History observe.History
	Live    observe.Live
	// Pool counts the connections of the pool.
	Pool func() (size, idle, active int64)
	// MaxQueueMetrics is the setting metrics.max_queues.
	MaxQueueMetrics int
	// Switches turn push maintenance and pop maintenance on and off.
	Switches operate.Switches
	// Spool keeps pushes during push maintenance.
	Spool operate.Spool
	// Jobs are the redrives that the instances run.
	Jobs operate.Jobs
	// Schedules put messages into queues at instants.
	Schedules schedules.Store
	// Limits are the limits of consumer groups.
	Limits flow.Limits
	// MessageStates finds the last messages of schedules.
	MessageStates schedules.Messages
	// Rights creates and revokes tokens, and changes the grants of SQL roles.
	Rights operate.Rights
	// Listener returns the state of the LISTEN connection.
	Listener func() ListenerState
	// Inbox returns the state of the inbox, or an error if ctx ends first.
	Inbox func(ctx context.Context) (api.Inbox, error)
	// Flushes returns the figures of group commit, by operation.
	Flushes  func() []store.Flushes
	Defaults queue.Defaults
	// Dashboard serves the pages for people. It checks tokens itself. If it is nil, there are no pages.
	Dashboard http.Handler
}
