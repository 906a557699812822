package live

import (
	"slices"
	"sync"
	"time"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// OnCreated publishes that this instance has created a queue. Heard publishes the creations of other instances,
// because their notifications contain the names.
func (h *Hub) OnCreated(queueName, partition string, from events.Origin) {
	if partition == "" && from == events.Here {
		h.happened(Event{Type: TypeQueueCreated, Queue: queueName})
	}
}

// OnGroupCreated publishes that a consumer group was created for a queue, or for one partition.
func (h *Hub) OnGroupCreated(queueName, partition, group string) {
	h.happened(Event{Type: TypeGroupCreated, Queue: queueName, Partition: partition, Group: group})
}

// OnReady makes a read of the groups due after a change of a SQL session. Changes of instances cause a read
// through their counts. It makes a read of the audit due if a limit of a group has room, because its breaker may have changed.
func (h *Hub) OnReady(ready []queue.Ready, from events.Origin) {
	if !h.active.Load() {
		return
	}
	room := slices.ContainsFunc(ready, func(r queue.Ready) bool { return r.Partition == queue.Room })
	if !room && from != events.SQL {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if from == events.SQL {
		h.movedLocked()
	}
	if room {
		h.reads.audit = true
		h.wakeLocked()
	}
}

// OnResync makes both reads due, because a SQL session or another instance has changed something.
func (h *Hub) OnResync(_ string, from events.Origin) {
	if from != events.Here && h.active.Load() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.movedLocked()
		h.reads.audit = true
		h.wakeLocked()
	}
}

// Audited makes both reads due, because this instance has written a row of the audit.
func (h *Hub) Audited() {
	if !h.active.Load() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.out.audit = len(h.interests) > 0; h.out.audit {
		h.activity.note()
	}
	h.reads.audit = true
	h.movedLocked()
	h.wakeLocked()
}

// ListenerChanged publishes the state of the listener of this instance.
func (h *Hub) ListenerChanged(state string) {
	h.happened(Event{Type: TypeListener, Data: api.ListenerChange{State: state}})
}

// SequencerChanged publishes whether this instance is the sequencer.
func (h *Hub) SequencerChanged(leading bool) {
	h.mu.Lock()
	h.leading = leading
	h.mu.Unlock()
	h.happened(Event{Type: TypeSequencer, Data: api.SequencerChange{Leading: leading}})
}

// MaintenanceChanged publishes the maintenance modes. It does not notify other instances, because each instance calls
// MaintenanceChanged of its hub.
func (h *Hub) MaintenanceChanged(push, pop bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.maintenance = &api.Switches{Push: push, Pop: pop}
	h.publishLocked(Event{Type: TypeMaintenance, Data: *h.maintenance})
}

// activity records the instant of the first event since the last take, so that the hub publishes the event soon.
type activity struct {
	mu    sync.Mutex
	since time.Time
	// first is the instant of the first event, or zero. note calls onFirst for the first event. onFirst must not block.
	first   time.Time
	onFirst func()
}

// note records an event.
func (a *activity) note() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.first.IsZero() {
		a.first = time.Now()
		a.onFirst()
	}
}

// begun returns the instant of the first event since the last take, or zero.
func (a *activity) begun() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.first
}

// take returns the time since the last take, and resets the activity.
func (a *activity) take(now time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	over := now.Sub(a.since)
	a.since, a.first = now, time.Time{}
	return over
}
