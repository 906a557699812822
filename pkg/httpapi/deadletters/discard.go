package deadletters

import (
	"context"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Discarder deletes the dead letters of one message. *deadletter.Letters implements it.
type Discarder interface {
	Discard(ctx context.Context, partition queue.ID, transactionID string, group *string) (int64, error)
}

// Discard serves DELETE /api/v1/messages/:partitionId/:transactionId/dlq. It deletes the dead letter of a message for one group,
// or for all groups. The message stays in the log. Queen MQ does not have this route.
func (h *Handlers) Discard(p *wire.Params) (any, error) {
	ref, err := wire.ReadMessagePath(p)
	group := p.Name("consumerGroup")
	if err == nil {
		err = p.Err
	}
	if err != nil {
		return nil, err
	}
	target := audit.Target{TransactionID: ref.TransactionID}
	if group != nil {
		target.Group = *group
	}
	audit.Begin(p.Ctx(), target, audit.Parameters{"partitionId": ref.PartitionText})
	if err := wire.FindPartition(p.Ctx(), h.Owners, ref.Partition, (*identity.Grants).MayAdminister); err != nil {
		return nil, err
	}
	n, err := h.Discarder.Discard(p.Ctx(), ref.Partition, ref.TransactionID, group)
	return api.DiscardedMessage{Success: true, PartitionID: ref.PartitionText, TransactionID: ref.TransactionID, Group: group, Discarded: n}, err
}
