package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
)

// ListenerState is what is known of the LISTEN connection.
type ListenerState struct {
	State string
	// Proof is how long ago it last proved itself.
	Proof      time.Duration
	Reconnects int64
	Peers      int
}

// InboxState is what is known of the messages that were written by SQL.
type InboxState struct {
	// Waiting were committed and are not in their partitions yet, Rejected cannot be.
	Waiting, Rejected int64
	// Oldest is how long ago the first of those that wait was written.
	Oldest time.Duration
	// Leading: this instance sequences them.
	Leading bool
	// Holder is the session with the lock for it; nil: nobody has it.
	Holder *InboxHolder
}

// InboxHolder is a session that moves those messages, or keeps others from it.
type InboxHolder struct {
	// PID is 0 for a prepared transaction.
	PID               int64
	User, Application string
}

type holderJSON struct {
	PID         int64  `json:"pid"`
	User        string `json:"user"`
	Application string `json:"application"`
}

type inboxJSON struct {
	Waiting       int64       `json:"waiting"`
	OldestSeconds float64     `json:"oldestSeconds"`
	Rejected      int64       `json:"rejected"`
	Sequencer     bool        `json:"sequencer"`
	Holder        *holderJSON `json:"holder,omitempty"`
}

type listenerJSON struct {
	State             string  `json:"state"`
	SecondsSinceProof float64 `json:"secondsSinceProof"`
	Reconnects        int64   `json:"reconnects"`
	Peers             int     `json:"peers"`
}

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

type dueJSON struct {
	GroupID     int64   `json:"groupId"`
	PartitionID int64   `json:"partitionId,omitempty"`
	InSeconds   float64 `json:"inSeconds"`
}

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

// dispatcher serves GET /api/v1/status/dispatcher, for a person who asks why
// nothing arrives: who waits for what, when something is due next, and whether
// this instance hears the others.
func (s *Server) dispatcher(c echo.Context) error {
	status := s.deps.Popper.Status()
	out := dispatcherJSON{
		Listener: s.listener(), Inbox: s.inbox(c.Request().Context()), Waiting: status.Waiting, Truncated: status.Truncated,
		Groups: []waitingJSON{}, Due: []dueJSON{}, Backoff: []backoffJSON{},
	}
	for _, g := range status.Groups {
		out.Groups = append(out.Groups, waitingJSON{
			Queue: g.Queue, Partition: g.Partition, Namespace: g.Namespace, Task: g.Task, ConsumerGroup: g.Group,
			Waiting: g.Waiting, OldestSeconds: g.Oldest.Seconds(), TimeoutSeconds: g.Next.Seconds(),
		})
	}
	for _, due := range status.Due {
		out.Due = append(out.Due, dueJSON{GroupID: due.Target.Group, PartitionID: due.Target.Partition, InSeconds: due.In.Seconds()})
	}
	for _, b := range status.Backoff {
		out.Backoff = append(out.Backoff, backoffJSON{GroupID: b.Target.Group, EmptyLooks: b.EmptyProbes, DelaySeconds: b.Delay.Seconds()})
	}
	body, err := json.Marshal(out)
	if err != nil {
		return fmt.Errorf("encoding the dispatcher's status: %w", err)
	}
	return answer(c, http.StatusOK, body)
}

func (s *Server) listener() listenerJSON {
	l := s.deps.Listener()
	return listenerJSON{State: l.State, SecondsSinceProof: l.Proof.Seconds(), Reconnects: l.Reconnects, Peers: l.Peers}
}

// inbox is nil when the database does not answer: the rest is worth telling then.
func (s *Server) inbox(ctx context.Context) *inboxJSON {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	i, err := s.deps.Inbox(ctx)
	if err != nil {
		return nil
	}
	return &inboxJSON{
		Waiting: i.Waiting, OldestSeconds: i.Oldest.Seconds(), Rejected: i.Rejected, Sequencer: i.Leading, Holder: (*holderJSON)(i.Holder),
	}
}
