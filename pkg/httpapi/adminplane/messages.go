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
	out := messagesJSON{
		Messages: []listedMessageJSON{},
		Mode:     toModeJSON(list.Mode),
		Pagination: nextPageJSON{
			pageJSON: pageJSON{filter.Limit, filter.Offset}, Next: tokenOrNull(list.Next),
		},
	}
	for i := range list.Messages {
		out.Messages = append(out.Messages, toListedMessage(&list.Messages[i]))
	}
	return wire.AnswerJSON(c, http.StatusOK, out)
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
	name, err := wire.PathName(c, "queue")
	if err != nil {
		return err
	}
	filter := stats.MessageFilter{Queue: &name}
	if filter.Limit, filter.Offset, err = pageQuery(c, queueMessagesLimit); err != nil {
		return err
	}
	if filter.After, err = markQuery(c); err != nil {
		return err
	}
	if err := h.Resources.Exists(c.Request().Context(), name); err != nil {
		return err
	}
	list, err := h.Resources.Messages(c.Request().Context(), filter)
	if err != nil {
		return err
	}
	out := []queueMessageJSON{}
	for i := range list.Messages {
		m := &list.Messages[i]
		out = append(out, queueMessageJSON{
			toMessageRefJSON(m.ID, m.TransactionID, m.PartitionID, m.Queue, m.Partition), m.Status, wire.FormatMillis(m.CreatedAt),
		})
	}
	if list.Next != nil {
		c.Response().Header().Set(nextHeader, list.Next.Token())
	}
	return wire.AnswerJSON(c, http.StatusOK, out)
}

// messageFilter reads the query of GET /messages. Queen MQ calls the namespace
// ns; Belfry accepts namespace too.
func messageFilter(c echo.Context, now time.Time) (filter stats.MessageFilter, err error) {
	if filter.Queue, err = wire.NameQuery(c, "queue"); err != nil {
		return filter, err
	}
	if filter.Partition, err = wire.NameQuery(c, "partition"); err != nil {
		return filter, err
	}
	namespace := "namespace"
	if c.QueryParam("ns") != "" {
		namespace = "ns"
	}
	if filter.Namespace, err = wire.TextQuery(c, namespace); err != nil {
		return filter, err
	}
	if filter.Task, err = wire.TextQuery(c, "task"); err != nil {
		return filter, err
	}
	switch filter.Status = stats.Status(c.QueryParam("status")); filter.Status {
	case "", stats.StatusPending, stats.StatusProcessing, stats.StatusCompleted, stats.StatusDeadLetter:
	default:
		return filter, queue.Invalidf("status is %s: it must be pending, processing, completed or dead_letter",
			wire.Clip(fmt.Sprintf("%q", string(filter.Status))))
	}
	if filter.From, filter.To, err = readSpan(c, now); err != nil {
		return filter, err
	}
	if filter.Limit, filter.Offset, err = pageQuery(c, messagesLimit); err != nil {
		return filter, err
	}
	filter.After, err = markQuery(c)
	return filter, err
}

// readSpan reads from and to. Without from, the span begins messagesSpan before to
// or now. Without to, the span has no end, so that a message whose clock is ahead
// is listed too.
func readSpan(c echo.Context, now time.Time) (from, to time.Time, err error) {
	if from, err = wire.InstantQuery(c, "from"); err != nil {
		return from, to, err
	}
	if to, err = wire.InstantQuery(c, "to"); err != nil {
		return from, to, err
	}
	if !to.IsZero() {
		to = to.Truncate(time.Minute).Add(time.Minute - time.Microsecond) // the whole minute, as in Queen MQ
	}
	switch {
	case from.IsZero():
		from = now.Add(-messagesSpan)
		if !to.IsZero() && to.Before(from) {
			from = to.Add(-messagesSpan)
		}
	case !to.IsZero() && to.Before(from):
		return from, to, queue.Invalidf("to is before from: exchange them")
	}
	return from, to, nil
}

// markQuery reads the cursor. An absent cursor is nil.
func markQuery(c echo.Context) (*stats.Mark, error) {
	text := c.QueryParam("cursor")
	if text == "" {
		return nil, nil //nolint:nilnil // a list without a cursor begins with the newest message
	}
	mark, err := stats.ParseMark(text)
	if err != nil {
		return nil, err
	}
	return &mark, nil
}

func tokenOrNull(mark *stats.Mark) *string {
	if mark == nil {
		return nil
	}
	return orNull(mark.Token())
}
