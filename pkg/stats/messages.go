package stats

import (
	"context"
	"fmt"
	"time"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Status is the state of a message; the package says what each means.
type Status string

// The statuses.
const (
	StatusPending    Status = "pending"
	StatusProcessing Status = "processing"
	StatusCompleted  Status = "completed"
	StatusDeadLetter Status = "dead_letter"
)

// MessageFilter chooses messages.
type MessageFilter struct {
	// Queue and Partition are names; nil matches any.
	Queue, Partition *string
	// Namespace and Task match exactly; empty matches any.
	Namespace, Task string
	// Status matches exactly; empty matches any.
	Status Status
	// From and To bound when a message was stored, both included; the zero time
	// bounds nothing.
	From, To time.Time
	// Limit bounds the messages and is at least 1; Offset passes over the newest
	// ones.
	Limit, Offset int
	// After goes on behind a place; nil begins with the newest message.
	After *Mark
}

// Message is one stored message, without its payload.
type Message struct {
	ID            queue.ID
	TransactionID string
	TraceID       queue.ID
	ProducerSub   string
	CreatedAt     time.Time
	Queue         string
	Namespace     string
	Task          string
	Priority      int64
	PartitionID   queue.ID
	Partition     string
	Status        Status
	// QueueStatus is what it is for the reader without a group, if there is one.
	QueueStatus Status
	// Groups is how many named groups read its partition and DoneBy how many of
	// them are done with it.
	Groups, DoneBy int64
	// LeasedUntil: the reader without a group has it under lease; else zero.
	LeasedUntil time.Time

	place    Mark
	queueKey int64
}

// Mode says who reads the queues of a list.
type Mode struct {
	// QueueMode: somebody reads without a group.
	QueueMode bool
	// Groups is how many named groups there are.
	Groups int64
}

// Type names the mode as the wire contract does.
func (m Mode) Type() string {
	switch {
	case m.QueueMode && m.Groups > 0:
		return "hybrid"
	case m.QueueMode:
		return "queue"
	case m.Groups > 0:
		return "bus"
	default:
		return "none"
	}
}

// MessageList is a page of messages, newest first.
type MessageList struct {
	Messages []Message
	Mode     Mode
	// Next goes on behind the last message; nil when there are no more.
	Next *Mark
}

// Messages lists messages, newest first: by the instant they were stored; those
// of one instant by partition, and in a partition by their order. A queue that
// does not exist has none. The package says what it costs. Errors: CodeInvalid,
// CodeUnavailable.
func (r *Reader) Messages(ctx context.Context, filter MessageFilter) (MessageList, error) {
	list, err := r.messages(ctx, filter)
	if err != nil {
		return MessageList{}, postgres.Wrap(fmt.Errorf("listing messages: %w", err))
	}
	return list, nil
}

func (r *Reader) messages(ctx context.Context, filter MessageFilter) (MessageList, error) {
	queues, err := r.matching(ctx, filter)
	if err != nil || len(queues) == 0 {
		return MessageList{}, err
	}
	keys := make([]int64, len(queues))
	byKey := make(map[int64]*Queue, len(queues))
	for i := range queues {
		keys[i] = queues[i].key
		byKey[keys[i]] = &queues[i]
	}
	var list MessageList
	modes, err := collect(ctx, r, "stats/modes", scanMode, keys)
	if err != nil {
		return list, err
	}
	list.Mode = modes[0]
	found, more, err := r.merge(ctx, keys, filter)
	if err != nil {
		return list, err
	}
	if more {
		list.Next = &found[len(found)-1].place
	}
	list.Messages = found[min(filter.Offset, len(found)):]
	for i := range list.Messages {
		m := &list.Messages[i]
		q := byKey[m.queueKey]
		m.Queue, m.Namespace, m.Task, m.Priority = q.Name, q.Namespace, q.Task, q.Options.Priority
	}
	return list, nil
}

// matching returns the queues of a filter.
func (r *Reader) matching(ctx context.Context, filter MessageFilter) ([]Queue, error) {
	if filter.Queue == nil {
		return r.queues(ctx, QueueFilter{Namespace: filter.Namespace, Task: filter.Task})
	}
	q, err := r.queue(ctx, *filter.Queue)
	if queue.CodeOf(err) == queue.CodeNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if filter.Namespace != "" && q.Namespace != filter.Namespace || filter.Task != "" && q.Task != filter.Task {
		return nil, nil
	}
	return []Queue{q}, nil
}

// standing is what the status of a message follows from.
type standing struct {
	dead, queueMode, queueDone bool
	leased                     bool
	groups, doneBy             int64
}

// status applies the rules of the package: of the message, and of the reader
// without a group.
func (s standing) status() (status, queueStatus Status) {
	queueStatus = StatusPending
	switch {
	case s.queueMode && s.queueDone:
		queueStatus = StatusCompleted
	case s.queueMode && s.leased:
		queueStatus = StatusProcessing
	}
	switch {
	case s.dead:
		return StatusDeadLetter, queueStatus
	case s.queueMode:
		return queueStatus, queueStatus
	case s.groups > 0 && s.doneBy == s.groups:
		return StatusCompleted, queueStatus
	default:
		return StatusPending, queueStatus
	}
}
