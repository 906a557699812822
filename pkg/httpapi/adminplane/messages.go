package adminplane

import (
	"fmt"
	"time"

	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/pkg/stats"
)

const (
	// messagesLimit is the default page of GET /messages, and queueMessagesLimit
	// that of GET /status/queues/:queue/messages.
	messagesLimit      = 200
	queueMessagesLimit = 50
	// messagesSpan is how far back GET /messages goes without from.
	messagesSpan = time.Hour
)

type busStatusJSON struct {
	ConsumedBy  int64 `json:"consumedBy"`
	TotalGroups int64 `json:"totalGroups"`
}

type messageRefJSON struct {
	ID            queue.ID `json:"id"`
	TransactionID string   `json:"transactionId"`
	PartitionID   queue.ID `json:"partitionId"`
	QueuePath     string   `json:"queuePath"`
	Queue         string   `json:"queue"`
	Partition     string   `json:"partition"`
}

func toMessageRefJSON(id queue.ID, transactionID string, partitionID queue.ID, queueName, partition string) messageRefJSON {
	return messageRefJSON{id, transactionID, partitionID, queueName + "/" + partition, queueName, partition}
}

type listedMessageJSON struct {
	messageRefJSON
	Namespace string       `json:"namespace"`
	Task      string       `json:"task"`
	Status    stats.Status `json:"status"`
	// QueueStatus is null in the answer of one message that has no reader without
	// a group.
	QueueStatus    *stats.Status `json:"queueStatus"`
	BusStatus      busStatusJSON `json:"busStatus"`
	TraceID        queue.ID      `json:"traceId"`
	ProducerSub    *string       `json:"producerSub"`
	QueuePriority  int64         `json:"queuePriority"`
	CreatedAt      time.Time     `json:"createdAt"`
	LeaseExpiresAt time.Time     `json:"leaseExpiresAt"`
}

type modeJSON struct {
	HasQueueMode   bool   `json:"hasQueueMode"`
	BusGroupsCount int64  `json:"busGroupsCount"`
	Type           string `json:"type"`
}

func toModeJSON(m stats.Mode) modeJSON {
	return modeJSON{HasQueueMode: m.QueueMode, BusGroupsCount: m.Groups, Type: m.Type()}
}

// Messages serves GET /api/v1/messages. The newest message comes first.
func (h *Handlers) Messages(p *wire.Params) (any, error) {
	page := readPage(p, messagesLimit)
	filter, err := messageFilter(p, page, time.Now())
	if err != nil {
		return nil, err
	}
	list, err := h.Resources.Messages(p.Ctx(), filter)
	next := nextPageJSON{pageJSON: page}
	if list.Next != nil {
		next.Next = orNull(list.Next.Token())
	}
	return wire.Fields{"messages", each(list.Messages, toListedMessage), "mode", toModeJSON(list.Mode), "pagination", next}, err
}

func toListedMessage(m *stats.Message) listedMessageJSON {
	return listedMessageJSON{
		messageRefJSON: toMessageRefJSON(m.ID, m.TransactionID, m.PartitionID, m.Queue, m.Partition),
		Namespace:      m.Namespace, Task: m.Task, Status: m.Status, QueueStatus: &m.QueueStatus,
		BusStatus: busStatusJSON{ConsumedBy: m.DoneBy, TotalGroups: m.Groups},
		TraceID:   m.TraceID, ProducerSub: orNull(m.ProducerSub), QueuePriority: m.Priority,
		CreatedAt: m.CreatedAt, LeaseExpiresAt: m.LeasedUntil,
	}
}

type queueMessageJSON struct {
	messageRefJSON
	Status    stats.Status `json:"status"`
	CreatedAt time.Time    `json:"createdAt"`
}

// nextHeader carries the cursor of the next page, because the body is an array.
const nextHeader = "X-Next-Cursor"

// QueueMessages serves GET /api/v1/status/queues/:queue/messages: messages of all
// ages, newest first. A queue that does not exist is a 404 and not an empty list.
func (h *Handlers) QueueMessages(p *wire.Params) (any, error) {
	name, page := p.PathName("queue"), readPage(p, queueMessagesLimit)
	filter := stats.MessageFilter{Queue: &name, Limit: int(page.Limit), Offset: int(page.Offset), After: readMark(p)}
	if p.Err != nil {
		return nil, p.Err
	}
	if err := h.Resources.Exists(p.Ctx(), name); err != nil {
		return nil, err
	}
	list, err := h.Resources.Messages(p.Ctx(), filter)
	if list.Next != nil {
		p.Response().Header().Set(nextHeader, list.Next.Token())
	}
	return each(list.Messages, func(m *stats.Message) queueMessageJSON {
		return queueMessageJSON{toMessageRefJSON(m.ID, m.TransactionID, m.PartitionID, m.Queue, m.Partition), m.Status, m.CreatedAt}
	}), err
}

// messageFilter reads the query of GET /messages. Queen MQ calls the namespace
// ns; Belfry accepts namespace too.
func messageFilter(p *wire.Params, page pageJSON, now time.Time) (stats.MessageFilter, error) {
	filter := stats.MessageFilter{
		Queue: p.Name("queue"), Partition: p.Name("partition"), Limit: int(page.Limit), Offset: int(page.Offset), After: readMark(p),
	}
	namespace := "namespace"
	if p.QueryParam("ns") != "" {
		namespace = "ns"
	}
	filter.Namespace, filter.Task = p.Text(namespace), p.Text("task")
	switch filter.Status = stats.Status(p.QueryParam("status")); filter.Status {
	case "", stats.StatusPending, stats.StatusProcessing, stats.StatusCompleted, stats.StatusDeadLetter:
	default:
		p.Check(queue.Invalidf("status is %s: it must be pending, processing, completed or dead_letter",
			wire.Clip(fmt.Sprintf("%q", string(filter.Status)))))
	}
	filter.From, filter.To = readSpan(p, now)
	return filter, p.Err
}

// readSpan reads from and to. Without from, the span begins messagesSpan before to
// or now. Without to, the span has no end, so that a message whose clock is ahead
// is listed too.
func readSpan(p *wire.Params, now time.Time) (from, to time.Time) {
	from, to = p.Instant("from"), p.Instant("to")
	if !to.IsZero() {
		to = to.Truncate(time.Minute).Add(time.Minute - time.Microsecond) // the whole minute, as in Queen MQ
	}
	reversed := func() bool { return !to.IsZero() && to.Before(from) }
	if from.IsZero() {
		if from = now.Add(-messagesSpan); reversed() {
			from = to.Add(-messagesSpan)
		}
	} else if reversed() {
		p.Check(queue.Invalidf("to is before from: exchange them"))
	}
	return from, to
}

// readMark reads the cursor. An absent cursor is nil.
func readMark(p *wire.Params) *stats.Position {
	text := p.QueryParam("cursor")
	if text == "" {
		return nil
	}
	mark, err := stats.ParsePosition(text)
	p.Check(err)
	return &mark
}
