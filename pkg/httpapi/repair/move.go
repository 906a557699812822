package repair

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/engine/deadletter"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Move serves PATCH /api/v1/messages/:partitionId/:transactionId. A caller who may push to the queue may move its messages,
// because a push with a delay holds up the partition in the same way.
func (h *Handlers) Move(p *wire.Params) (any, error) {
	ref, err := wire.ReadMessagePath(p)
	if err != nil {
		return nil, err
	}
	to, err := h.readMove(p)
	if err != nil {
		return nil, err
	}
	audit.Begin(p.Ctx(), audit.Target{TransactionID: ref.TransactionID}, audit.Parameters{"partitionId": ref.PartitionText})
	if err := wire.FindPartition(p.Ctx(), h.Owners, ref.Partition, (*identity.Grants).MayPush); err != nil {
		return nil, err
	}
	done, err := h.Messages.Reschedule(p.Ctx(), ref.Partition, ref.TransactionID, to)
	return api.MovedMessage{
		Success: true, PartitionID: ref.PartitionText, TransactionID: ref.TransactionID,
		VisibleAt: wire.OrNull(done.After), VisibleAtBefore: wire.OrNull(done.Before),
	}, err
}

// readMove reads the body, which has one member. A visibleAt of null is now.
func (h *Handlers) readMove(p *wire.Params) (to deadletter.Instant, err error) {
	members := 0
	err = h.Bodies.ReadObject(p, func(name string, value jsontext.Value) (err error) {
		members++
		switch {
		case name == "delaySeconds":
			to.Delay, err = wire.Delay(name, value)
		case name != "visibleAt":
			err = queue.Invalidf("the member %s is not known: send visibleAt or delaySeconds", wire.Clip(fmt.Sprintf("%q", name)))
		case value.Kind() != 'n':
			to.At, err = wire.VisibleAt(name, value)
		}
		return err
	})
	if err == nil && members != 1 {
		err = queue.Invalidf("the body must have one of visibleAt and delaySeconds: send the new instant, or null as visibleAt for now")
	}
	return to, err
}
