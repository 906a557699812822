package app

import (
	"time"

	"github.com/belfry-mq/belfry/pkg/events"
	"github.com/belfry-mq/belfry/pkg/listen"
	"github.com/belfry-mq/belfry/pkg/queue"
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
		OnState: func(state listen.State) {
			// If the listener is no longer proven, waiting requests need shorter fallbacks.
			in.bus.Resync("the listener is "+string(state), events.Peer)
		},
		OnInbox:     in.bus.Inbox,
		OnSQLWaiter: in.bus.SQLWaiter,
		OnListening: in.bus.Listening,
	}
}

// message publishes the entries of one notification. A notification without an instance is from a
// SQL session.
func (in inbound) message(m listen.Message) {
	origin := events.Peer
	if m.Instance.IsZero() {
		origin = events.SQL
	}
	var ready []queue.Ready
	for _, e := range m.Entries {
		switch e.Kind {
		case listen.KindReady:
			ready = append(ready, queue.Ready{Group: e.Group, Partition: e.Partition, At: e.At})
		case listen.KindCreated:
			in.bus.Created("", "", events.Peer)
		case listen.KindResync:
			in.bus.Resync("another instance asked for it", events.Peer)
		}
	}
	in.bus.Ready(ready, origin)
}

// peerSender sends entries to the other instances.
type peerSender interface{ Send(entries ...listen.Entry) }

// outbound sends the events of this instance to the other instances. The sender coalesces them.
type outbound struct {
	events.Nop
	peers peerSender
}

// OnReady sends the partitions and their groups. For a partition that is poppable now it also sends
// since when. For the others the receiver probes, and learns the instant from the database.
func (o outbound) OnReady(ready []queue.Ready, from events.Origin) {
	if from != events.Here {
		return
	}
	entries := make([]listen.Entry, len(ready))
	for i, r := range ready {
		entries[i] = listen.Ready(r.Group, r.Partition, time.Time{})
		if r.In <= 0 {
			entries[i].At = r.At
		}
	}
	o.peers.Send(entries...)
}

// OnCreated sends that something was created, without its name.
func (o outbound) OnCreated(_, _ string, from events.Origin) {
	if from == events.Here {
		o.peers.Send(listen.Created())
	}
}

// OnResync asks the other instances for a resync.
func (o outbound) OnResync(_ string, from events.Origin) {
	if from == events.Here {
		o.peers.Send(listen.Resync())
	}
}
