package adminplane

import (
	"context"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/dispatch"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
)

// inboxTimeout bounds the question to the database.
const inboxTimeout = 2 * time.Second

// ListenerState describes the LISTEN connection.
type ListenerState struct {
	State string
	// Proof is the time since the connection last received its own notification.
	Proof      time.Duration
	Reconnects int64
	Peers      int
}

// InboxState describes the messages that producers wrote with SQL.
type InboxState struct {
	// Waiting counts the messages that are committed but not sequenced yet,
	// Rejected the ones that cannot be sequenced.
	Waiting, Rejected int64
	// Oldest is the age of the oldest waiting message.
	Oldest time.Duration
	// Leading says that this instance sequences the messages.
	Leading bool
	// Holder is the session that has the lock for sequencing, or nil.
	Holder *InboxHolder
}

// InboxHolder is a session that has the lock for sequencing. It need not be a
// session of Belfry.
type InboxHolder struct {
	PID         int64  `json:"pid"` // 0 for a prepared transaction
	User        string `json:"user"`
	Application string `json:"application"`
}

type inboxJSON struct {
	Waiting       int64        `json:"waiting"`
	OldestSeconds float64      `json:"oldestSeconds"`
	Rejected      int64        `json:"rejected"`
	Sequencer     bool         `json:"sequencer"`
	Holder        *InboxHolder `json:"holder,omitempty"`
}

type listenerJSON struct {
	State             string  `json:"state"`
	SecondsSinceProof float64 `json:"secondsSinceProof"`
	Reconnects        int64   `json:"reconnects"`
	Peers             int     `json:"peers"`
}

// waitingJSON describes the waiting requests of one group.
type waitingJSON struct {
	Queue          string  `json:"queue,omitempty"`
	Partition      string  `json:"partition,omitempty"`
	Namespace      string  `json:"namespace,omitempty"`
	Task           string  `json:"task,omitempty"`
	ConsumerGroup  string  `json:"consumerGroup"`
	Waiting        int     `json:"waiting"`
	OldestSeconds  float64 `json:"oldestSeconds"`
	TimeoutSeconds float64 `json:"nextTimeoutSeconds"`
}

// dueJSON is a partition that becomes due, or a group when PartitionID is 0.
type dueJSON struct {
	GroupID     int64   `json:"groupId"`
	PartitionID int64   `json:"partitionId,omitempty"`
	InSeconds   float64 `json:"inSeconds"`
}

// backoffJSON is a group that pauses after probes that found nothing.
type backoffJSON struct {
	GroupID      int64   `json:"groupId"`
	EmptyLooks   int     `json:"emptyLooks"`
	DelaySeconds float64 `json:"delaySeconds"`
}

type dispatcherJSON struct {
	Listener  listenerJSON  `json:"listener"`
	Inbox     *inboxJSON    `json:"inbox,omitempty"`
	Waiting   int           `json:"waiting"`
	Groups    []waitingJSON `json:"groups"`
	Due       []dueJSON     `json:"due"`
	Backoff   []backoffJSON `json:"backoff"`
	Truncated bool          `json:"truncated"`
}

// DispatcherStatus serves GET /api/v1/status/dispatcher. It answers why no message
// arrives: which requests wait for what, what becomes due next, and whether this
// instance receives the wakes of other instances.
func (h *Handlers) DispatcherStatus(c echo.Context) error {
	status := h.Waiting.Status()
	return wire.AnswerJSON(c, http.StatusOK, dispatcherJSON{
		Listener: h.listener(), Inbox: h.inbox(c.Request().Context()), Waiting: status.Waiting, Truncated: status.Truncated,
		Groups: each(status.Groups, func(g *dispatch.WaitingGroup) waitingJSON {
			return waitingJSON{
				Queue: g.Queue, Partition: g.Partition, Namespace: g.Namespace, Task: g.Task, ConsumerGroup: g.Group,
				Waiting: g.Waiting, OldestSeconds: g.Oldest.Seconds(), TimeoutSeconds: g.Next.Seconds(),
			}
		}),
		Due: each(status.Due, func(d *dispatch.DueInstant) dueJSON {
			return dueJSON{GroupID: d.Target.Group, PartitionID: d.Target.Partition, InSeconds: d.In.Seconds()}
		}),
		Backoff: each(status.Backoff, func(b *dispatch.BackoffGroup) backoffJSON {
			return backoffJSON{GroupID: b.Target.Group, EmptyLooks: b.EmptyProbes, DelaySeconds: b.Delay.Seconds()}
		}),
	})
}

func (h *Handlers) listener() listenerJSON {
	l := h.Listener()
	return listenerJSON{State: l.State, SecondsSinceProof: l.Proof.Seconds(), Reconnects: l.Reconnects, Peers: l.Peers}
}

// inbox returns nil when the database does not answer, so that the answer still
// has the rest.
func (h *Handlers) inbox(ctx context.Context) *inboxJSON {
	ctx, cancel := context.WithTimeout(ctx, inboxTimeout)
	defer cancel()
	i, err := h.Inbox(ctx)
	if err != nil {
		return nil
	}
	return &inboxJSON{
		Waiting: i.Waiting, OldestSeconds: i.Oldest.Seconds(), Rejected: i.Rejected, Sequencer: i.Leading, Holder: i.Holder,
	}
}
