package app

import (
	"time"

	"github.com/belfry-mq/belfry/pkg/events"
	"github.com/belfry-mq/belfry/pkg/httpapi"
	"github.com/belfry-mq/belfry/pkg/listen"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// inbound publishes what the listener hears on the bus of this instance.
type inbound struct {
	bus  *events.Bus
	pool *postgres.Pool
}

// callbacks returns what the listener calls.
func (in inbound) callbacks() listen.Callbacks {
	return listen.Callbacks{
		OnMessage: in.message,
		OnResync: func(reason string) {
			// A peer that fell silent may have died between a commit and its wake.
			in.pool.SignalLoss()
			in.bus.Resync(reason, events.Peer)
		},
		OnState: func(state listen.State) {
			// Requests that wait long because the listener was proven must wait less now.
			in.bus.Resync("the listener is "+string(state), events.Peer)
		},
		OnInbox:    in.bus.Inbox,
		SQLWaiters: in,
	}
}

// message publishes the entries of one message. A message without an instance is from a SQL
// session.
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

// Await publishes that a SQL session waits.
func (in inbound) Await(w queue.SQLWaiter) { in.bus.SQLWaiter(w) }

// AskAgain publishes that LISTEN came into force.
func (in inbound) AskAgain() { in.bus.Listening() }

// outbound sends what happens here to the other instances. The sender coalesces.
type outbound struct {
	events.Nop
	sender *listen.Sender
}

// OnReady sends the partitions and the groups, and since when those that are poppable now have been
// poppable. For the others the receiver looks, and learns the instant from the database.
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
	o.sender.Send(entries...)
}

// OnCreated sends that something was created, without its name.
func (o outbound) OnCreated(_, _ string, from events.Origin) {
	if from == events.Here {
		o.sender.Send(listen.Created())
	}
}

// OnResync asks the other instances to look at everything.
func (o outbound) OnResync(_ string, from events.Origin) {
	if from == events.Here {
		o.sender.Send(listen.Resync())
	}
}

// listenerState returns what the status of the dispatcher shows of the listener.
func listenerState(l *listen.Listener) httpapi.ListenerState {
	state, proof := l.State()
	return httpapi.ListenerState{
		State: string(state), Proof: proof, Reconnects: l.Reconnects(), Peers: len(l.Peers()),
	}
}
