package httpapi

import (
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/pkg/stats"
)

const (
	// messagesLimit is the page of GET /messages that names no limit, and
	// queueMessagesLimit that of GET /status/queues/:queue/messages.
	messagesLimit      = 200
	queueMessagesLimit = 50
	// messagesSpan is how far back a list of messages goes that names no from.
	messagesSpan = time.Hour
)

type busStatusJSON struct {
	ConsumedBy  int64 `json:"consumedBy"`
	TotalGroups int64 `json:"totalGroups"`
}

type listedMessageJSON struct {
	ID             string        `json:"id"`
	TransactionID  string        `json:"transactionId"`
	PartitionID    string        `json:"partitionId"`
	QueuePath      string        `json:"queuePath"`
	Queue          string        `json:"queue"`
	Partition      string        `json:"partition"`
	Namespace      string        `json:"namespace"`
	Task           string        `json:"task"`
	Status         stats.Status  `json:"status"`
	QueueStatus    stats.Status  `json:"queueStatus"`
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

type messagesJSON struct {
	Messages   []listedMessageJSON `json:"messages"`
	Mode       modeJSON            `json:"mode"`
	Pagination nextPageJSON        `json:"pagination"`
}

// messages serves GET /api/v1/messages (section 7.2), newest first.
func (s *Server) messages(c echo.Context) error {
	filter, err := messageFilter(c, time.Now())
	if err != nil {
		return err
	}
	list, err := s.deps.Resources.Messages(c.Request().Context(), filter)
	if err != nil {
		return err
	}
	out := messagesJSON{
		Messages: []listedMessageJSON{},
		Mode:     modeJSON{HasQueueMode: list.Mode.QueueMode, BusGroupsCount: list.Mode.Groups, Type: list.Mode.Type()},
		Pagination: nextPageJSON{
			pageJSON: pageJSON{filter.Limit, filter.Offset}, Next: tokenOrNull(list.Next),
		},
	}
	for i := range list.Messages {
		out.Messages = append(out.Messages, listedMessage(&list.Messages[i]))
	}
	return answerValue(c, http.StatusOK, out)
}

func listedMessage(m *stats.Message) listedMessageJSON {
	return listedMessageJSON{
		ID: m.ID.String(), TransactionID: m.TransactionID, PartitionID: m.PartitionID.String(),
		QueuePath: m.Queue + "/" + m.Partition, Queue: m.Queue, Partition: m.Partition,
		Namespace: m.Namespace, Task: m.Task, Status: m.Status, QueueStatus: m.QueueStatus,
		BusStatus: busStatusJSON{ConsumedBy: m.DoneBy, TotalGroups: m.Groups},
		TraceID:   idOrNull(m.TraceID), ProducerSub: textOrNull(m.ProducerSub), QueuePriority: m.Priority,
		CreatedAt: formatMillis(m.CreatedAt), LeaseExpiresAt: millisOrNull(m.LeasedUntil),
	}
}

type queueMessageJSON struct {
	ID            string       `json:"id"`
	TransactionID string       `json:"transactionId"`
	PartitionID   string       `json:"partitionId"`
	QueuePath     string       `json:"queuePath"`
	Queue         string       `json:"queue"`
	Partition     string       `json:"partition"`
	Status        stats.Status `json:"status"`
	CreatedAt     string       `json:"createdAt"`
}

// nextHeader carries the token of the next page where the body is an array.
const nextHeader = "X-Next-Cursor"

// queueMessages serves GET /api/v1/status/queues/:queue/messages (section 7.4):
// of all times, newest first. The queue is looked up first, so that one that does
// not exist is a 404 and not an empty list.
func (s *Server) queueMessages(c echo.Context) error {
	name, err := pathName(c, "queue")
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
	if err := s.deps.Resources.Exists(c.Request().Context(), name); err != nil {
		return err
	}
	list, err := s.deps.Resources.Messages(c.Request().Context(), filter)
	if err != nil {
		return err
	}
	out := []queueMessageJSON{}
	for i := range list.Messages {
		m := &list.Messages[i]
		out = append(out, queueMessageJSON{
			ID: m.ID.String(), TransactionID: m.TransactionID, PartitionID: m.PartitionID.String(),
			QueuePath: m.Queue + "/" + m.Partition, Queue: m.Queue, Partition: m.Partition, Status: m.Status,
			CreatedAt: formatMillis(m.CreatedAt),
		})
	}
	if list.Next != nil {
		c.Response().Header().Set(nextHeader, list.Next.Token())
	}
	return answerValue(c, http.StatusOK, out)
}

// messageFilter reads the query of GET /messages. The namespace may be called ns,
// as the reference does, or namespace.
func messageFilter(c echo.Context, now time.Time) (filter stats.MessageFilter, err error) {
	if filter.Queue, err = nameQuery(c, "queue"); err != nil {
		return filter, err
	}
	if filter.Partition, err = nameQuery(c, "partition"); err != nil {
		return filter, err
	}
	namespace := "namespace"
	if c.QueryParam("ns") != "" {
		namespace = "ns"
	}
	if filter.Namespace, err = textQuery(c, namespace); err != nil {
		return filter, err
	}
	if filter.Task, err = textQuery(c, "task"); err != nil {
		return filter, err
	}
	switch filter.Status = stats.Status(c.QueryParam("status")); filter.Status {
	case "", stats.StatusPending, stats.StatusProcessing, stats.StatusCompleted, stats.StatusDeadLetter:
	default:
		return filter, queue.Invalidf("status is %s: it must be pending, processing, completed or dead_letter",
			clip(fmt.Sprintf("%q", string(filter.Status))))
	}
	if filter.From, err = instantQuery(c, "from"); err != nil {
		return filter, err
	}
	if filter.From.IsZero() {
		filter.From = now.Add(-messagesSpan)
	}
	if filter.To, err = instantQuery(c, "to"); err != nil {
		return filter, err
	}
	if !filter.To.IsZero() {
		// The whole minute, as the reference does. Without a to nothing is too new,
		// whatever the clocks say.
		filter.To = filter.To.Truncate(time.Minute).Add(time.Minute - time.Microsecond)
		if filter.To.Before(filter.From) {
			if c.QueryParam("from") == "" {
				filter.From = filter.To.Add(-messagesSpan)
			} else {
				return filter, queue.Invalidf("to is before from: exchange them")
			}
		}
	}
	if filter.Limit, filter.Offset, err = pageQuery(c, messagesLimit); err != nil {
		return filter, err
	}
	filter.After, err = markQuery(c)
	return filter, err
}

// markQuery reads the cursor; an absent one is nil.
func markQuery(c echo.Context) (*stats.Position, error) {
	text := c.QueryParam("cursor")
	if text == "" {
		return nil, nil //nolint:nilnil // a list without a cursor begins with the newest message
	}
	place, err := stats.ParsePosition(text)
	if err != nil {
		return nil, err
	}
	return &place, nil
}

func tokenOrNull(place *stats.Position) *string {
	if place == nil {
		return nil
	}
	text := place.Token()
	return &text
}
