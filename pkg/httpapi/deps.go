package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/engine/store"
	"github.com/belfry-mq/belfry/pkg/httpapi/data"
	"github.com/belfry-mq/belfry/pkg/httpapi/observe"
	"github.com/belfry-mq/belfry/pkg/httpapi/operate"
	"github.com/belfry-mq/belfry/pkg/httpapi/queen"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Popper answers pops and reports the ones that wait.
type Popper interface {
	data.Popper
	observe.WaitReporter
	// Waiting returns the number of pops that wait now.
	Waiting() int
}

// ListenerState describes the LISTEN connection.
type ListenerState = observe.ListenerState

// Catalog configures, pauses and deletes queues, and wakes the pops that wait for one.
type Catalog interface {
	operate.Catalog
	queen.Catalog
}

// GroupWriter deletes consumer groups, seeks them, and sets where they start.
type GroupWriter interface {
	operate.GroupWriter
	queen.GroupWriter
}

// Streams keeps the queries of stream clients.
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

// Events collect what happens. *live.Hub is one.
type Events interface {
	observe.Events
	// Audited notes that a row of the audit was written.
	Audited()
}

// Deps are the packages and values that the handlers of the routes use.
type Deps struct {
	Pusher data.Pusher
	// Verbs acknowledge, extend leases and run transactions.
	Verbs data.Verbs
	// Auth verifies tokens. Nil: every request may do everything.
	Auth        Authenticator
	Popper      Popper
	Catalog     Catalog
	GroupWriter GroupWriter
	GroupReader observe.GroupReader
	// Progress reads groups and partitions in bounded work.
	Progress  observe.Progress
	Resources queen.Resources
	// Queues and Problems are the lists that read a bounded number of rows.
	Queues   observe.Queues
	Problems observe.Problems
	// LateAfter is problems.late_after.
	LateAfter   time.Duration
	DeadLetters operate.DeadLetters
	Traces      Traces
	Audit       Audit
	// Texts makes texts of the audit storable. Nil: its encoding is UTF8.
	Texts audit.Texts
	// Confirm waits until the disk and the synchronous standbys have all that the database shows. A handler may have found
	// its work done by an earlier call whose commit still waits, or was canceled while it waited: see postgres.Confirm.
	Confirm   func(ctx context.Context) error
	Explainer observe.Explainer
	// Events collects what happens, for watchers.
	Events Events
	Doctor observe.Doctor
	// Attachments and Rejections are of producers that write with SQL.
	Attachments observe.Attachments
	Rejections  operate.Rejections
	// Owners find the queue of a partition or lease, for checks of grants.
	Owners  wire.Owners
	Streams Streams
	// History and Live are what the routes of status and analytics show.
	History observe.History
	Live    observe.Live
	// Pool counts the connections of the pool.
	Pool func() (size, idle, active int64)
	// MaxQueueMetrics is metrics.max_queues.
	MaxQueueMetrics int
	// Switches are the switches for maintenance.
	Switches operate.Switches
	// Spool keeps pushes during push maintenance.
	Spool operate.Spool
	// Listener returns the state of the LISTEN connection.
	Listener func() ListenerState
	// Inbox returns the state of the inbox, or an error if ctx ends first.
	Inbox func(ctx context.Context) (api.Inbox, error)
	// Flushes returns the figures of group commit, by operation.
	Flushes  func() []store.Flushes
	Defaults queue.Defaults
	// Dashboard serves the pages for people. It checks tokens itself. Nil: it is not served.
	Dashboard http.Handler
}
