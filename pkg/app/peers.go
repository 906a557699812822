package app

import (
	"github.com/belfry-mq/belfry/pkg/postgres/listen"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// inboundEvents publishes the events of other instances and of SQL sessions on the bus of this instance.
type inboundEvents struct {
	bus *events.Bus
	// reportLostWake reports that a wake may have been lost.
	reportLostWake func()
	// doubtConnections reports that connections of the pools may be broken too.
	doubtConnections func()
	// groupsOf returns the groups of a queue for which requests may wait on this instance.
	groupsOf func(queueKey int64) []int64
	hub      hub
}

// hub collects the events for watchers.
type hub interface {
	ListenerChanged(state string)
	Heard(payload string)
	PeerLeft(instance queue.ID)
}

// callbacks returns the functions that the listener calls.
func (in inboundEvents) callbacks() listen.Callbacks {
	return listen.Callbacks{
		OnReady:   in.ready,
		OnCreated: func() { in.bus.Created("", "", events.Peer) },
		OnResync: func(reason string) {
			// Notifications may be missing. One reason is a silent peer: it may have died between a
			// commit and its notification.
			in.reportLostWake()
			in.bus.Resync(reason, events.Peer)
		},
		OnLook: func(reason string) { in.bus.Resync(reason, events.Peer) },
		OnState: func(state listen.State) {
			if state == listen.StateReconnecting {
				in.doubtConnections() // before the resync makes the requests probe
			}
			// Waiting requests poll more often while notifications are not known to arrive.
			in.bus.Resync("the listener is "+string(state), events.Peer)
			in.hub.ListenerChanged(string(state))
		},
		OnLive:       in.hub.Heard,
		OnPeerLeft:   in.hub.PeerLeft,
		OnInbox:      in.bus.Inbox,
		OnSQLWaiter:  in.bus.SQLWaiter,
		OnListening:  in.bus.Listening,
		OnRevocation: in.bus.Revocation,
		OnSetting:    in.bus.Setting,
		OnSchedule:   in.bus.Schedule,
	}
}

// ready publishes what became ready. If a notification names only the queue of a partition, ready publishes the partition for
// each group that this instance knows. A notification without an instance is from a SQL session.
func (in inboundEvents) ready(n listen.Notification) {
	origin := events.Peer
	if n.Instance.IsZero() {
		origin = events.SQL
	}
	ready := n.Ready
	for _, p := range n.Partitions {
		for _, group := range in.groupsOf(p.Queue) {
			ready = append(ready, queue.Ready{Group: group, Partition: p.Partition, At: p.At})
		}
	}
	in.bus.Ready(ready, origin)
}
