package live

import (
	"time"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// Type says what happened.
type Type string

// The types. Each says the type of Event.Data in brackets; without brackets it is nil.
const (
	// TypeSnapshot [api.Snapshot] is the first event of a watcher, and the first one after a gap.
	TypeSnapshot Type = "snapshot"
	// TypeRates [api.Rates] are the figures of one instance over the last second.
	TypeRates Type = "rates"

	TypeQueueCreated Type = "queue.created"
	TypeQueueChanged Type = "queue.changed"
	TypeQueuePaused  Type = "queue.paused" // with Partition: only that partition
	TypeQueueResumed Type = "queue.resumed"
	TypeQueueDeleted Type = "queue.deleted"
	TypeGroupCreated Type = "group.created" // with Partition: for that partition
	TypeGroupChanged Type = "group.changed"
	TypeGroupPaused  Type = "group.paused"
	TypeGroupResumed Type = "group.resumed"
	TypeGroupDeleted Type = "group.deleted" // without Queue: in all queues
	TypeGroupSeeked  Type = "group.seeked"

	TypeLag         Type = "lag"          // [api.LateGroup]
	TypeDeadLetters Type = "dead_letters" // [api.DeadLetterGroup]
	TypeListener    Type = "listener"     // [api.ListenerChange]
	TypeInstance    Type = "instance"     // [api.InstanceChange]
	TypeSweep       Type = "sweep"        // [api.SweepCounts]
	TypeSequencer   Type = "sequencer"    // [api.SequencerChange]
	TypeMaintenance Type = "maintenance"  // [api.Switches]
	TypeAudit       Type = "audit"        // [api.AuditEvent]

	// TypeDropped [api.Dropped] says that events are missing here.
	TypeDropped Type = "dropped"
	// TypeClosing [api.Closing] is the last event.
	TypeClosing Type = "closing"
)

// Event is one thing that happened. It must not be changed, because watchers share it.
type Event struct {
	// ID orders the events of one process. It is empty for an event that only one watcher gets.
	ID   string
	Type Type
	At   time.Time
	// Instance is where it happened. It is zero for what is not of one instance.
	Instance queue.ID
	// Queue, Partition and Group are empty if they do not apply.
	Queue, Partition, Group string
	Data                    any
}
