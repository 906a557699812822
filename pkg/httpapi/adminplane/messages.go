package adminplane

import (
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

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
	ID            string `json:"id"`
	TransactionID string `json:"transactionId"`
	PartitionID   string `json:"partitionId"`
	QueuePath     string `json:"queuePath"`
	Queue         string `json:"queue"`
	Partition     string `json:"partition"`
}

func toMessageRefJSON(id queue.ID, transactionID string, partitionID queue.ID, queueName, partition string) messageRefJSON {
	return messageRefJSON{id.String(), transactionID, partitionID.String(), queueName + "/" + partition, queueName, partition}
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
	TraceID        *string       `json:"traceId"`
	ProducerSub    *string       `json:"producerSub"`
	QueuePriority  int64         `json:"queuePriority"`
	CreatedAt      string        `json:"createdAt"`
	LeaseExpiresAt *string       `json:"leaseExpiresAt"`
}

type modeJSON struct {
	HasQueueMode   bool   `json:"hasQueueMode"`
	BusGroupsCount int64  `json:"busGroupsCount"`
	Type           string `json:"type"`
}

func toModeJSON(m stats.Mode) modeJSON {
	return modeJSON{HasQueueMode: m.QueueMode, BusGroupsCount: m.Groups, Type: m.Type()}
}

type messagesJSON struct {
	Messages   []listedMessageJSON `json:"messages"`
	Mode       modeJSON            `json:"mode"`
	Pagination nextPageJSON        `json:"pagination"`
}

// Messages serves GET /api/v1/messages. The newest message comes first.
func (h *Handlers) Messages(c echo.Context) error {
	filter, err := messageFilter(c, time.Now())
	if err != nil {
		return err
	}
	list, err := h.Resources.Messages(c.Request().Context(), filter)
	if err != nil {
		return err
	}
	return wire.AnswerJSON(c, http.StatusOK, messagesJSON{
		Messages:   each(list.Messages, toListedMessage),
		Mode:       toModeJSON(list.Mode),
		Pagination: nextPageJSON{pageJSON: pageJSON{filter.Limit, filter.Offset}, Next: tokenOrNull(list.Next)},
	})
}

func toListedMessage(m *stats.Message) listedMessageJSON {
	return listedMessageJSON{
		messageRefJSON: toMessageRefJSON(m.ID, m.TransactionID, m.PartitionID, m.Queue, m.Partition),
		Namespace:      m.Namespace, Task: m.Task, Status: m.Status, QueueStatus: &m.QueueStatus,
		BusStatus: busStatusJSON{ConsumedBy: m.DoneBy, TotalGroups: m.Groups},
		TraceID:   idOrNull(m.TraceID), ProducerSub: orNull(m.ProducerSub), QueuePriority: m.Priority,
		CreatedAt: wire.FormatMillis(m.CreatedAt), LeaseExpiresAt: millisOrNull(m.LeasedUntil),
	}
}

type queueMessageJSON struct {
	messageRefJSON
	Status    stats.Status `json:"status"`
	CreatedAt string       `json:"createdAt"`
}

// nextHeader carries the cursor of the next page, because the body is an array.
const nextHeader = "X-Next-Cursor"

// QueueMessages serves GET /api/v1/status/queues/:queue/messages: messages of all
// ages, newest first. A queue that does not exist is a 404 and not an empty list.
func (h *Handlers) QueueMessages(c echo.Context) error {
	p := &wire.Params{Context: c}
	name := p.PathName("queue")
	filter := stats.MessageFilter{Queue: &name}
	filter.Limit, filter.Offset = readLimits(p, queueMessagesLimit)
	filter.After = readMark(p)
	if p.Err != nil {
		return p.Err
	}
	if err := h.Resources.Exists(c.Request().Context(), name); err != nil {
		return err
	}
	list, err := h.Resources.Messages(c.Request().Context(), filter)
	if err != nil {
		return err
	}
	if list.Next != nil {
		c.Response().Header().Set(nextHeader, list.Next.Token())
	}
	return wire.AnswerJSON(c, http.StatusOK, each(list.Messages, func(m *stats.Message) queueMessageJSON {
		ref := toMessageRefJSON(m.ID, m.TransactionID, m.PartitionID, m.Queue, m.Partition)
		return queueMessageJSON{ref, m.Status, wire.FormatMillis(m.CreatedAt)}
	}))
}

// messageFilter reads the query of GET /messages. Queen MQ calls the namespace
// ns; Belfry accepts namespace too.
func messageFilter(c echo.Context, now time.Time) (stats.MessageFilter, error) {
	p := &wire.Params{Context: c}
	filter := stats.MessageFilter{Queue: p.Name("queue"), Partition: p.Name("partition")}
	namespace := "namespace"
	if c.QueryParam("ns") != "" {
		namespace = "ns"
	}
	filter.Namespace, filter.Task = p.Text(namespace), p.Text("task")
	switch filter.Status = stats.Status(c.QueryParam("status")); filter.Status {
	case "", stats.StatusPending, stats.StatusProcessing, stats.StatusCompleted, stats.StatusDeadLetter:
	default:
		p.Check(queue.Invalidf("status is %s: it must be pending, processing, completed or dead_letter",
			wire.Clip(fmt.Sprintf("%q", string(filter.Status)))))
	}
	filter.From, filter.To = readSpan(p, now)
	filter.Limit, filter.Offset = readLimits(p, messagesLimit)
	filter.After = readMark(p)
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

func tokenOrNull(mark *stats.Position) *string {
	if mark == nil {
		return nil
	}
	return orNull(mark.Token())
}
