package live

import (
	"time"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// Type is the kind of an Event.
type Type string

// The types of events. The brackets contain the type of Event.Data. Without brackets, Data is nil.
const (
	// TypeSnapshot [api.Snapshot] is the first event of a watcher, and the first event after a gap.
	TypeSnapshot Type = "snapshot"
	// TypeRates [api.Rates] has the rates of one instance over the last second.
	TypeRates Type = "rates"

	TypeQueueCreated Type = "queue.created"
	TypeQueueChanged Type = "queue.changed"
	TypeQueuePaused  Type = "queue.paused" // if Partition is set, only that partition is paused
	TypeQueueResumed Type = "queue.resumed"
	TypeQueueDeleted Type = "queue.deleted"
	TypeGroupCreated Type = "group.created" // if Partition is set, the group has only that partition
	TypeGroupChanged Type = "group.changed"
	TypeGroupPaused  Type = "group.paused"
	TypeGroupResumed Type = "group.resumed"
	TypeGroupDeleted Type = "group.deleted" // if Queue is empty, the group is deleted in all queues
	TypeGroupSeeked  Type = "group.seeked"
	// The breaker of the group opened, let one lease pass, or closed.
	TypeBreakerOpened     Type = "breaker.opened"
	TypeBreakerHalfOpened Type = "breaker.half_opened"
	TypeBreakerClosed     Type = "breaker.closed"

	TypeLag         Type = "lag"          // [api.LateGroup]
	TypeDeadLetters Type = "dead_letters" // [api.DeadLetterGroup]
	TypeListener    Type = "listener"     // [api.ListenerChange]
	TypeInstance    Type = "instance"     // [api.InstanceChange]
	TypeSweep       Type = "sweep"        // [api.SweepCounts]
	TypeSequencer   Type = "sequencer"    // [api.SequencerChange]
	TypeMaintenance Type = "maintenance"  // [api.Switches]
	TypeAudit       Type = "audit"        // [api.AuditEvent]

	// TypeDropped [api.Dropped] replaces events that the watcher has lost.
	TypeDropped Type = "dropped"
	// TypeClosing [api.Closing] is the last event.
	TypeClosing Type = "closing"
)

// Event reports one change. Watchers share an Event, so they must not modify it.
type Event struct {
	// ID orders the events of one process. It is empty for an event that only one watcher gets.
	ID   string
	Type Type
	At   time.Time
	// Instance is the instance that caused the event. It is zero if the event does not belong to one instance.
	Instance queue.ID
	// Queue, Partition and Group are empty if they do not apply.
	Queue, Partition, Group string
	Data                    any
}
