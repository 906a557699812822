package queen

import (
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/httpapi/observe"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/insight/stats"
)

const (
	// queueMessagesLimit is the default limit of GET /status/queues/:queue/messages.
	queueMessagesLimit = 50
	// nextHeader is the header with the cursor of the next page. The body is an array, so it cannot have the cursor.
	nextHeader = "X-Next-Cursor"
)

// QueueMessages serves GET /api/v1/status/queues/:queue/messages. It lists messages of all
// ages, the newest first. If the queue does not exist, the answer is a 404.
func (h *Handlers) QueueMessages(p *wire.Params) (any, error) {
	name, page := p.PathName("queue"), wire.ReadPage(p, queueMessagesLimit)
	filter := stats.MessageFilter{Queue: &name, Limit: int(page.Limit), Offset: int(page.Offset), After: observe.ReadMark(p)}
	p.Check(wire.MayRead(p.Ctx(), name))
	if p.Err != nil {
		return nil, p.Err
	}
	if err := h.Resources.Exists(p.Ctx(), name); err != nil {
		return nil, err
	}
	list, err := h.Observe.Resources.Messages(p.Ctx(), filter)
	if list.Next != nil {
		p.Response().Header().Set(nextHeader, list.Next.Token())
	}
	return wire.Each(list.Messages, func(m *stats.Message) api.QueueMessage {
		return api.QueueMessage{MessageRef: observe.MessageRef(m), Status: string(m.Status), CreatedAt: m.CreatedAt}
	}), err
}
