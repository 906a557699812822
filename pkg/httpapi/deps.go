package httpapi

import (
	"context"
	"net/http"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/engine/store"
	"github.com/belfry-mq/belfry/pkg/httpapi/adminplane"
	"github.com/belfry-mq/belfry/pkg/httpapi/dataplane"
	"github.com/belfry-mq/belfry/pkg/httpapi/deadplane"
	"github.com/belfry-mq/belfry/pkg/httpapi/historyplane"
	"github.com/belfry-mq/belfry/pkg/httpapi/listplane"
	"github.com/belfry-mq/belfry/pkg/httpapi/liveplane"
	"github.com/belfry-mq/belfry/pkg/httpapi/producerplane"
	"github.com/belfry-mq/belfry/pkg/httpapi/progressplane"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Popper answers pops and reports the ones that wait.
type Popper interface {
	dataplane.Popper
	adminplane.WaitReporter
	// Waiting returns the number of pops that wait now.
	Waiting() int
}

// ListenerState describes the LISTEN connection.
type ListenerState = adminplane.ListenerState

// InboxState describes the inbox: the messages that producers wrote with SQL and that are not in their
// partitions yet.
type InboxState = adminplane.InboxState

// InboxHolder is the database session that has the lock for moving messages from the inbox to their
// partitions.
type InboxHolder = adminplane.InboxHolder

// Streams keeps the queries of stream clients.
type Streams interface {
	dataplane.Streams
	adminplane.Streams
}

// DeadLetters read and change dead letters and single messages.
type DeadLetters interface {
	adminplane.DeadLetters
	deadplane.Letters
}

// Events collect what happens. *live.Hub is one.
type Events interface {
	liveplane.Events
	dataplane.Meter
	// Audited notes that a row of the audit was written.
	Audited()
}

// Deps are the rooms and values that the handlers of the routes use.
type Deps struct {
	Pusher dataplane.Pusher
	// Verbs acknowledge, extend leases and run transactions.
	Verbs dataplane.Verbs
	// Auth verifies tokens. Nil: every request may do everything.
	Auth        Authenticator
	Popper      Popper
	Catalog     adminplane.Catalog
	GroupWriter adminplane.GroupWriter
	GroupReader progressplane.GroupReader
	// Progress reads groups and partitions in bounded work.
	Progress  progressplane.Progress
	Resources adminplane.Resources
	// Queues and Problems are the lists that read a bounded number of rows.
	Queues      listplane.Queues
	Problems    listplane.Problems
	DeadLetters DeadLetters
	Traces      adminplane.Traces
	Audit       adminplane.Audit
	// Texts makes texts of the audit storable. Nil: its encoding is UTF8.
	Texts audit.Texts
	// Confirm waits until the disk and the synchronous standbys have all that the database shows. A handler may have found
	// its work done by an earlier call whose commit still waits, or was canceled while it waited: see postgres.Confirm.
	Confirm   func(ctx context.Context) error
	Explainer adminplane.Explainer
	// Events are what happens, for watchers. They also count like a Meter.
	Events Events
	Doctor adminplane.Doctor
	// Attachments and Rejections are of producers that write with SQL.
	Attachments producerplane.Attachments
	Rejections  producerplane.Rejections
	// Owners find the queue of a partition or lease, for checks of grants.
	Owners  wire.Owners
	Streams Streams
	// History and Live are what the routes of status and analytics show.
	History historyplane.History
	Live    historyplane.Live
	// Pool counts the connections of the pool.
	Pool func() (size, idle, active int64)
	// MaxQueueMetrics is metrics.max_queues.
	MaxQueueMetrics int
	// Switches are the switches for maintenance.
	Switches adminplane.Switches
	// Spool keeps pushes during push maintenance.
	Spool adminplane.Spool
	// Listener returns the state of the LISTEN connection.
	Listener func() ListenerState
	// Inbox returns the state of the inbox, or an error if ctx ends first.
	Inbox func(ctx context.Context) (InboxState, error)
	// Flushes returns the figures of group commit, by operation.
	Flushes  func() []store.Flushes
	Defaults queue.Defaults
	// Dashboard serves the pages for people. It checks tokens itself. Nil: it is not served.
	Dashboard http.Handler
}
