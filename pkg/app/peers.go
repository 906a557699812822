package app

import (
	"github.com/belfry-mq/belfry/pkg/events"
	"github.com/belfry-mq/belfry/pkg/listen"
)

// inbound publishes the events of other instances and of SQL sessions on the bus of this instance.
type inbound struct {
	bus *events.Bus
	// reportLost reports that a wake may have been lost.
	reportLost func()
}

// callbacks returns what the listener calls.
func (in inbound) callbacks() listen.Callbacks {
	return listen.Callbacks{
		OnMessage: in.message,
		OnResync: func(reason string) {
			// A peer that fell silent may have died between a commit and its notification.
			in.reportLost()
			in.bus.Resync(reason, events.Peer)
		},
		OnGarbage: func(reason string) { in.bus.Resync(reason, events.Peer) },
		OnState: func(state listen.State) {
			// If the listener is no longer proven, waiting requests need shorter fallbacks.
			in.bus.Resync("the listener is "+string(state), events.Peer)
		},
		OnInbox:     in.bus.Inbox,
		OnSQLWaiter: in.bus.SQLWaiter,
		OnListening: in.bus.Listening,
	}
}

// message publishes the hints of one notification. A notification without an instance is from a SQL
// session.
func (in inbound) message(m listen.Message) {
	origin := events.Peer
	if m.Instance.IsZero() {
		origin = events.SQL
	}
	if m.Created {
		in.bus.Created("", "", events.Peer)
	}
	if m.Resync {
		in.bus.Resync("another instance asked for it", events.Peer)
	}
	in.bus.Ready(m.Ready, origin)
}
