package stats

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var sqlModes = sql.Query("insight/stats/modes")

// Status is the state of a message. The package doc defines the values.
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
	// Queue and Partition are names. Nil matches any name.
	Queue, Partition *string
	// TransactionID matches exactly. Empty matches any. With it, Queue and Partition are set, and From, To and After have no effect.
	TransactionID string
	// Namespace and Task match exactly. Empty matches any value.
	Namespace, Task string
	// Status matches exactly. Empty matches any status.
	Status Status
	// From and To bound the instant at which a message was stored. Both are included. A
	// zero time sets no bound.
	From, To time.Time
	// Limit bounds the messages and is at least 1. Offset skips the newest messages.
	Limit, Offset int
	// After is the position after which the list starts. If it is nil, the list starts at
	// the newest message.
	After *Position
	// Allowed are patterns of queue names, as in belfry.matches. Nil matches any name. If
	// Queue is set, Allowed has no effect.
	Allowed []string
	// Window restricts the list to a bounded number of partitions, unless it is nil.
	Window *Window
}

// Message is one stored message, without its payload.
type Message struct {
	ID            queue.ID
	TransactionID string
	TraceID       queue.ID
	ProducerSub   string
	Headers       queue.Headers
	CreatedAt     time.Time
	// VisibleAt is zero without a delay.
	VisibleAt   time.Time
	Queue       string
	Namespace   string
	Task        string
	Priority    int64
	PartitionID queue.ID
	Partition   string
	Status      Status
	// QueueStatus is the status for the reader without a group.
	QueueStatus Status
	// Groups counts the named groups that read the partition. DoneBy counts how many of
	// these groups are done with the message.
	Groups, DoneBy int64
	// LeasedUntil is the end of the lease of the reader without a group, or zero.
	LeasedUntil time.Time

	position Position
	queueKey int64
	// dead is true if the message is a dead letter of a group. queueMode is true if a
	// reader without a group reads the partition. queueDone is true if that reader is done
	// with the message.
	dead, queueMode, queueDone bool
}

// Mode describes the readers of the queues of a list.
type Mode struct {
	// QueueMode is true if there is a reader without a group.
	QueueMode bool
	// Groups counts the named groups.
	Groups int64
}

// Type returns the name of the mode in the HTTP API.
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
	// Next is the position of the last message, or nil if there are no more messages.
	Next *Position
	// NextWindow starts after the Window of the filter. It is nil if there are no more
	// partitions.
	NextWindow *Window
}

// Messages lists messages, newest first. Messages of the same instant are ordered by
// partition, then by seq. The list of a queue that does not
// exist is empty. The package doc gives the cost. Errors: CodeInvalid, CodeUnavailable.
func (r *Reader) Messages(ctx context.Context, filter MessageFilter) (MessageList, error) {
	list, err := r.messages(ctx, filter)
	return list, postgres.Wrapf(err, "listing messages")
}

func (r *Reader) messages(ctx context.Context, filter MessageFilter) (MessageList, error) {
	if filter.Queue != nil && filter.Partition != nil {
		filter.Window = nil // there is one partition
	} else if filter.TransactionID != "" {
		return MessageList{}, queue.Invalidf("transactionId needs a partition: send queue and partition too (a push without a partition stores in Default)")
	}
	if filter.TransactionID != "" {
		filter.From, filter.To, filter.After = time.Time{}, time.Time{}, nil
	}
	var list MessageList
	queues, err := r.matching(ctx, filter)
	if err == nil && filter.Window != nil {
		queues, err = r.look(ctx, &filter, queues)
		list.NextWindow = filter.Window.next
	}
	if err != nil || len(queues) == 0 {
		return list, err
	}
	keys := make([]int64, len(queues))
	byKey := make(map[int64]*Queue, len(queues))
	for i := range queues {
		keys[i] = queues[i].key
		byKey[keys[i]] = &queues[i]
	}
	modes, err := postgres.Collect(ctx, r.pool, sqlModes, pgx.RowToStructByPos[Mode], keys)
	if err != nil {
		return list, err
	}
	list.Mode = modes[0]
	found, more, err := r.merge(ctx, keys, filter)
	if err != nil {
		return list, err
	}
	if more {
		list.Next = &found[len(found)-1].position
	}
	list.Messages = found[min(filter.Offset, len(found)):]
	for i := range list.Messages {
		m := &list.Messages[i]
		q := byKey[m.queueKey]
		m.Queue, m.Namespace, m.Task, m.Priority = q.Name, q.Namespace, q.Task, q.Options.Priority
	}
	return list, nil
}

// matching returns the queues that match a filter.
func (r *Reader) matching(ctx context.Context, filter MessageFilter) ([]Queue, error) {
	if filter.Queue == nil && filter.Window != nil {
		return nil, nil // look finds the queues of the window
	}
	if filter.Queue == nil {
		return r.queues(ctx, QueueFilter{Namespace: filter.Namespace, Task: filter.Task, Allowed: filter.Allowed})
	}
	return postgres.Collect(ctx, r.pool, sqlQueuesOf, scanQueue, []int64{}, filter.Namespace, filter.Task, nil, *filter.Queue)
}

// setStatus sets Status and QueueStatus. The package doc has the rules.
func (m *Message) setStatus() {
	m.QueueStatus = StatusPending
	switch {
	case m.queueMode && m.queueDone:
		m.QueueStatus = StatusCompleted
	case m.queueMode && !m.LeasedUntil.IsZero():
		m.QueueStatus = StatusProcessing
	}
	switch {
	case m.dead:
		m.Status = StatusDeadLetter
	case m.queueMode:
		m.Status = m.QueueStatus
	case m.Groups > 0 && m.DoneBy == m.Groups:
		m.Status = StatusCompleted
	default:
		m.Status = StatusPending
	}
}

// Position identifies a message in the order of MessageList.
type Position struct {
	at        time.Time
	partition int64
	seq       int64
}

// newestFirst compares two positions. The newer position sorts first.
func newestFirst(a, b Position) int {
	return cmp.Or(b.at.Compare(a.at), cmp.Compare(b.partition, a.partition), cmp.Compare(b.seq, a.seq))
}

// Token returns the position as text for ParsePosition.
func (p Position) Token() string {
	b, _ := binary.Append(nil, binary.BigEndian, [3]int64{p.at.UnixMicro(), p.partition, p.seq}) // cannot fail: the size is fixed
	return base64.RawURLEncoding.EncodeToString(b)
}

// earliest bounds the instants of a filter or token from below. Postgres can store it.
var earliest = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)

// ParsePosition reads a token. Errors: CodeInvalid.
func ParsePosition(token string) (Position, error) {
	var n [3]int64
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err == nil && len(b) == binary.Size(n) {
		_, err = binary.Decode(b, binary.BigEndian, &n)
		p := Position{at: time.UnixMicro(n[0]).UTC(), partition: n[1], seq: n[2]}
		if err == nil && p.at.After(earliest) && p.at.Year() < 10000 && p.partition > 0 && p.seq > 0 {
			return p, nil
		}
	}
	return Position{}, queue.Invalidf("cursor is not one that an earlier answer gave as next: send that text unchanged")
}
