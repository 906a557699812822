package queen

import (
	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/httpapi/observe"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/insight/stats"
)

// Queues serves GET /api/v1/resources/queues. It lists all queues, the newest first.
func (h *Handlers) Queues(p *wire.Params) (any, error) {
	queues, err := h.Observe.Resources.Queues(p.Ctx(), stats.QueueFilter{Allowed: identity.GrantsOf(p.Ctx()).Readable()})
	return api.Queues{Queues: wire.Each(queues, observe.ListedQueue)}, err
}
