package observe

import (
	"fmt"
	"time"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/insight/stats"
	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// messagesLimit is the default limit of GET /messages.
	messagesLimit = 200
	// messagesSpan is the duration that GET /messages covers if the request has no from.
	messagesSpan = time.Hour
)

// Messages serves GET /api/v1/messages. The newest message comes first.
func (h *Handlers) Messages(p *wire.Params) (any, error) {
	page := wire.ReadPage(p, messagesLimit)
	filter, err := messageFilter(p, page, time.Now())
	if err != nil {
		return nil, err
	}
	list, err := h.Resources.Messages(p.Ctx(), filter)
	var next *string
	if list.Next != nil {
		next = wire.OrNull(list.Next.Token())
	}
	pagination := api.MessagePage{CursorPage: api.CursorPage{OffsetPage: page, Next: next}}
	if list.NextWindow != nil {
		pagination.NextPartitions = list.NextWindow.Token()
	}
	return api.Messages{Messages: wire.Each(list.Messages, messageRow), Mode: messageMode(list.Mode), Pagination: pagination}, err
}

// MessageRef returns the ids and names of a message.
func MessageRef(m *stats.Message) api.MessageRef {
	return api.MessageRef{
		ID: m.ID.String(), TransactionID: m.TransactionID, PartitionID: m.PartitionID.String(),
		QueuePath: m.Queue + "/" + m.Partition, Queue: m.Queue, Partition: m.Partition,
	}
}

// messageRow describes a message. In the answer of ShowMessage, QueueStatus is null if
// the queue has no reader without a group.
func messageRow(m *stats.Message) api.ListedMessage {
	return api.ListedMessage{
		MessageRef: MessageRef(m), Namespace: m.Namespace, Task: m.Task, Status: string(m.Status),
		QueueStatus: wire.OrNull(string(m.QueueStatus)), BusStatus: api.BusStatus{ConsumedBy: m.DoneBy, TotalGroups: m.Groups},
		TraceID: wire.IDOrNull(m.TraceID), ProducerSub: wire.OrNull(m.ProducerSub), QueuePriority: int(m.Priority),
		Headers: m.Headers.Map(), CreatedAt: m.CreatedAt, VisibleAt: m.VisibleAt, LeaseExpiresAt: &m.LeasedUntil,
	}
}

func messageMode(m stats.Mode) api.MessageMode {
	return api.MessageMode{HasQueueMode: m.QueueMode, BusGroupsCount: m.Groups, Type: m.Type()}
}

// messageFilter reads the parameters of GET /messages. In Queen MQ, the parameter for the
// namespace is ns. Belfry also accepts namespace.
func messageFilter(p *wire.Params, page api.OffsetPage, now time.Time) (stats.MessageFilter, error) {
	filter := stats.MessageFilter{
		Queue: p.Name("queue"), Partition: p.Name("partition"), TransactionID: p.TransactionID(),
		Limit: int(page.Limit), Offset: int(page.Offset), After: ReadMark(p), Allowed: readable(p),
	}
	p.Check(MayReadNamed(p, filter.Queue))
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
	if size := wire.LeadingInt(p.QueryParam("partitions"), 0); size > 0 {
		var err error
		filter.Window, err = stats.ParseWindow(p.QueryParam("partitionsAfter"), min(size, maxLimit))
		p.Check(err)
	}
	return filter, p.Err
}

// readSpan reads the parameters "from" and "to". Without "from", the span begins messagesSpan
// before now. If "to" is earlier than that, the span begins messagesSpan before "to". Without
// "to", the span has no end. So it includes a message whose time is later than now because two
// clocks differ.
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
		p.Check(queue.Invalidf("to is before from: swap them"))
	}
	return from, to
}

// ReadMark reads the cursor. Without a cursor it returns nil.
func ReadMark(p *wire.Params) *stats.Position {
	text := p.QueryParam("cursor")
	if text == "" {
		return nil
	}
	mark, err := stats.ParsePosition(text)
	p.Check(err)
	return &mark
}
