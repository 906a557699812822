package live

import (
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// OnCreated publishes that a queue was created. The creations of other instances arrive with their names
// in Heard.
func (h *Hub) OnCreated(queueName, partition string, from events.Origin) {
	if partition == "" && from == events.Here {
		h.happened(Event{Type: TypeQueueCreated, Queue: queueName})
	}
}

// OnGroupCreated publishes that a consumer group was created for a queue, or for one partition.
func (h *Hub) OnGroupCreated(queueName, partition, group string) {
	h.happened(Event{Type: TypeGroupCreated, Queue: queueName, Partition: partition, Group: group})
}

// OnReady notes that a SQL session changed something. What this instance and the others change is counted.
func (h *Hub) OnReady(_ []queue.Ready, from events.Origin) {
	if from == events.SQL && h.active.Load() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.movedLocked()
	}
}

// OnResync notes that a SQL session or another instance changed something.
func (h *Hub) OnResync(_ string, from events.Origin) {
	if from != events.Here && h.active.Load() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.movedLocked()
		h.reads.audit = true
		h.wakeLocked()
	}
}

// Audited notes that a row of the audit was written, here.
func (h *Hub) Audited() {
	if !h.active.Load() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.out.audit = len(h.interests) > 0; h.out.audit {
		h.counts.note()
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

// MaintenanceChanged publishes the switches. Each instance calls its own hub, so it is not sent to the
// others.
func (h *Hub) MaintenanceChanged(push, pop bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.maintenance = &api.Switches{Push: push, Pop: pop}
	h.publishLocked(Event{Type: TypeMaintenance, Data: *h.maintenance})
}
