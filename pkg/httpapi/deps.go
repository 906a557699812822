package httpapi

import (
	"context"

	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/httpapi/adminplane"
	"github.com/belfry-mq/belfry/pkg/httpapi/dataplane"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Popper answers pops and reports the ones that wait.
type Popper interface {
	dataplane.Popper
	adminplane.Dispatcher
	Waiting() int
}

// ListenerState describes the LISTEN connection.
type ListenerState = adminplane.ListenerState

// InboxState describes the messages that producers wrote with SQL.
type InboxState = adminplane.InboxState

// InboxHolder is a session that has the lock for sequencing those messages.
type InboxHolder = adminplane.InboxHolder

// Deps are what the routes call.
type Deps struct {
	Verbs       dataplane.Verbs
	Popper      Popper
	Catalog     adminplane.Catalog
	GroupVerbs  adminplane.GroupVerbs
	GroupReader adminplane.GroupReader
	Resources   adminplane.Resources
	Letters     adminplane.DeadLetters
	Traces      adminplane.Traces
	// Ping returns an error when the database does not answer.
	Ping func(ctx context.Context) error
	// Listener returns the state of the LISTEN connection.
	Listener func() ListenerState
	// Inbox returns the state of the inbox. The end of ctx is an error.
	Inbox    func(ctx context.Context) (InboxState, error)
	Metrics  *Metrics
	Defaults queue.Defaults
	Version  string
	Log      *zap.Logger
}
