package observe

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/belfry-mq/belfry/pkg/dispatch"
	"github.com/belfry-mq/belfry/pkg/engine/catalog"
	"github.com/belfry-mq/belfry/pkg/engine/store"
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
	// Others are the ids of the other instances.
	Others []queue.ID `json:"-"`
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

// targetJSON is a group, and a partition when PartitionID is not 0. The names are missing when the database
// does not answer, and for what is deleted.
type targetJSON struct {
	GroupID       int64  `json:"groupId"`
	PartitionID   int64  `json:"partitionId,omitzero"`
	Queue         string `json:"queue,omitempty"`
	ConsumerGroup string `json:"consumerGroup,omitempty"`
	Partition     string `json:"partition,omitempty"`
}

// dueJSON is a partition or a group that becomes due.
type dueJSON struct {
	targetJSON
	In time.Duration `json:"inSeconds"`
}

// backoffJSON is a group that backs off.
type backoffJSON struct {
	targetJSON
	EmptyLooks int           `json:"emptyLooks"`
	Delay      time.Duration `json:"delaySeconds"`
}

// batchJSON is the group commit of one operation.
type batchJSON struct {
	Operation string        `json:"operation"`
	Waiting   int           `json:"waiting"`
	Blocked   int           `json:"blockedCallers"`
	InFlight  int           `json:"inFlight"`
	Flushes   int64         `json:"flushes"`
	Calls     int64         `json:"calls"`
	Size      int64         `json:"size"`
	Duration  time.Duration `json:"flushSeconds"`
	Splits    int64         `json:"splits"`
	Retries   int64         `json:"retries"`
	Failures  int64         `json:"failures"`
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
	targets := h.targets(ctx, &status)
	return append(answer,
		"waiting", status.Waiting,
		"groups", wire.Each(status.Groups, func(g *dispatch.WaitingGroup) waitingJSON {
			return waitingJSON{
				Queue: g.Queue, Partition: g.Partition, Namespace: g.Namespace, Task: g.Task, ConsumerGroup: g.Group,
				Waiting: g.Waiting, Oldest: g.Oldest, Next: g.Next,
			}
		}),
		"due", wire.Each(status.Due, func(d *dispatch.DueInstant) dueJSON { return dueJSON{targets[d.Target], d.In} }),
		"backoff", wire.Each(status.Backoff, func(b *dispatch.BackoffGroup) backoffJSON {
			return backoffJSON{targets[b.Target], b.EmptyProbes, b.Delay}
		}),
		"batches", wire.Each(h.Flushes(), func(f *store.Flushes) batchJSON {
			return batchJSON{f.Op, f.Waiting, f.Blocked, f.InFlight, f.Flushes, f.Calls, f.Size, f.Duration, f.Splits, f.Retries, f.Failures}
		}),
		"truncated", status.Truncated,
	), nil
}

// targets returns the targets of a status with their names, as far as the database says them before ctx ends.
func (h *Handlers) targets(ctx context.Context, status *dispatch.Status) map[queue.Target]targetJSON {
	found := map[queue.Target]targetJSON{}
	for i := range status.Due {
		found[status.Due[i].Target] = targetJSON{}
	}
	for i := range status.Backoff {
		found[status.Backoff[i].Target] = targetJSON{}
	}
	if len(found) == 0 {
		return found
	}
	targets := slices.Collect(maps.Keys(found))
	names, err := h.Owners.Targets(ctx, targets)
	if err != nil {
		names = make([]catalog.Names, len(targets))
	}
	for i, target := range targets {
		found[target] = targetJSON{target.Group, target.Partition, names[i].Queue, names[i].Group, names[i].Partition}
	}
	return found
}
