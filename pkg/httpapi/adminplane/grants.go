package adminplane

import (
	"context"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// readable returns patterns of the queues that the sender may see. Nil: every queue.
func readable(p *wire.Params) []string { return identity.GrantsOf(p.Ctx()).Readable() }

// mayReadNamed returns CodeForbidden if a filter names a queue that the sender may not see.
func mayReadNamed(p *wire.Params, queueName *string) error {
	if queueName == nil {
		return nil
	}
	return wire.MayRead(p.Ctx(), *queueName)
}

// findPartition returns the error for a message that does not exist, unless may allows the queue of the
// partition. Without grants it returns nil, without a query.
func (h *Handlers) findPartition(ctx context.Context, id queue.ID, may func(g *identity.Grants, queueName string) bool) error {
	grants := identity.GrantsOf(ctx)
	if grants == nil {
		return nil
	}
	queues, err := h.Owners.Partitions(ctx, []queue.ID{id})
	if err != nil {
		return err
	}
	if name, exists := queues[id]; !exists || !may(grants, name) {
		return &queue.Error{Code: queue.CodeNotFound, Message: messageNotFound}
	}
	return nil
}
