package adminplane

import (
	"context"
	"time"

	"github.com/belfry-mq/belfry/pkg/dispatch"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// inboxTimeout bounds the question to the database.
const inboxTimeout = 2 * time.Second

// ListenerState describes the LISTEN connection.
type ListenerState struct {
	// Instance is the id under which this instance notifies the others.
	Instance queue.ID `json:"-"`
	State    string   `json:"state"`
	// Proof is the time since the connection last received its own notification.
	Proof      time.Duration `json:"secondsSinceProof"`
	Reconnects int64         `json:"reconnects"`
	Peers      int           `json:"peers"`
}

// InboxState describes the messages that producers wrote with SQL.
type InboxState struct {
	// Waiting counts the messages that are committed but not sequenced yet. Oldest is
	// the age of the oldest one.
	Waiting int64         `json:"waiting"`
	Oldest  time.Duration `json:"oldestSeconds"`
	// Rejected counts the messages that cannot be sequenced.
	Rejected int64 `json:"rejected"`
	// Leading says that this instance sequences the messages.
	Leading bool `json:"sequencer"`
	// Holder is the session that has the lock for sequencing, or nil.
	Holder *InboxHolder `json:"holder,omitempty"`
}

// InboxHolder is a session that has the lock for sequencing. It need not be a
// session of Belfry.
type InboxHolder struct {
	PID         int64  `json:"pid"` // 0 for a prepared transaction
	User        string `json:"user"`
	Application string `json:"application"`
}

// waitingJSON describes the waiting requests of one group.
type waitingJSON struct {
	Queue         string        `json:"queue,omitempty"`
	Partition     string        `json:"partition,omitempty"`
	Namespace     string        `json:"namespace,omitempty"`
	Task          string        `json:"task,omitempty"`
	ConsumerGroup string        `json:"consumerGroup"`
	Waiting       int           `json:"waiting"`
	Oldest        time.Duration `json:"oldestSeconds"`
	Next          time.Duration `json:"nextTimeoutSeconds"`
}

// dueJSON is a partition that becomes due, or a group when PartitionID is 0.
type dueJSON struct {
	GroupID     int64         `json:"groupId"`
	PartitionID int64         `json:"partitionId,omitzero"`
	In          time.Duration `json:"inSeconds"`
}

// DispatcherStatus serves GET /api/v1/status/dispatcher. It answers why no message
// arrives: which requests wait for what, what becomes due next, and whether this
// instance receives the wakes of other instances.
func (h *Handlers) DispatcherStatus(p *wire.Params) (any, error) {
	status := h.Waiting.Status()
	answer := wire.Fields{"listener", h.Listener()}
	ctx, cancel := context.WithTimeout(p.Ctx(), inboxTimeout)
	defer cancel()
	if inbox, err := h.Inbox(ctx); err == nil { // without the inbox, the answer still has the rest
		answer = append(answer, "inbox", inbox)
	}
	return append(answer,
		"waiting", status.Waiting,
		"groups", each(status.Groups, func(g *dispatch.WaitingGroup) waitingJSON {
			return waitingJSON{
				Queue: g.Queue, Partition: g.Partition, Namespace: g.Namespace, Task: g.Task, ConsumerGroup: g.Group,
				Waiting: g.Waiting, Oldest: g.Oldest, Next: g.Next,
			}
		}),
		"due", each(status.Due, func(d *dispatch.DueInstant) dueJSON {
			return dueJSON{GroupID: d.Target.Group, PartitionID: d.Target.Partition, In: d.In}
		}),
		"backoff", each(status.Backoff, func(b *dispatch.BackoffGroup) wire.Fields {
			return wire.Fields{"groupId", b.Target.Group, "emptyLooks", b.EmptyProbes, "delaySeconds", b.Delay}
		}),
		"truncated", status.Truncated,
	), nil
}
