package app

import (
	"github.com/belfry-mq/belfry/pkg/events"
	"github.com/belfry-mq/belfry/pkg/listen"
)

// inboundEvents publishes the events of other instances and of SQL sessions on the bus of this instance.
type inboundEvents struct {
	bus *events.Bus
	// reportLostWake reports that a wake may have been lost.
	reportLostWake func()
}

// callbacks returns what the listener calls.
func (in inboundEvents) callbacks() listen.Callbacks {
	return listen.Callbacks{
		OnMessage: in.notification,
		OnResync: func(reason string) {
			// Notifications may be missing. One reason is a silent peer: it may have died between a
			// commit and its notification.
			in.reportLostWake()
			in.bus.Resync(reason, events.Peer)
		},
		OnGarbage: func(reason string) { in.bus.Resync(reason, events.Peer) },
		OnState: func(state listen.State) {
			// Waiting requests poll more often while notifications are not known to arrive.
			in.bus.Resync("the listener is "+string(state), events.Peer)
		},
		OnInbox:     in.bus.Inbox,
		OnSQLWaiter: in.bus.SQLWaiter,
		OnListening: in.bus.Listening,
	}
}

// notification publishes the hints of one notification. A notification without an instance is from a SQL
// session.
func (in inboundEvents) notification(n listen.Notification) {
	origin := events.Peer
	if n.Instance.IsZero() {
		origin = events.SQL
	}
	if n.CatalogChanged {
		in.bus.Created("", "", events.Peer) // the notification names no queue
	}
	if n.Resync {
		in.bus.Resync("another instance asked for it", events.Peer)
	}
	in.bus.Ready(n.Ready, origin)
}
