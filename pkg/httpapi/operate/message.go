package operate

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// beginMessageAudit begins the row of the audit for a change of a message, for one group or for all groups. The
// package that finds the message adds the names of its queue and partition.
func beginMessageAudit(p *wire.Params, m *wire.MessagePath, group *string) {
	audit.Begin(p.Ctx(), audit.Target{TransactionID: m.TransactionID, Group: orEmpty(group)}, audit.Parameters{"partitionId": m.PartitionText})
}

// DeleteMessage serves DELETE /api/v1/messages/:partitionId/:transactionId. If the
// message does not exist, the answer is a 200 too, as in Queen MQ.
func (h *Handlers) DeleteMessage(p *wire.Params) (any, error) {
	ref, err := wire.ReadMessagePath(p)
	var existed bool
	if err == nil {
		beginMessageAudit(p, &ref, nil)
		err = wire.FindPartition(p.Ctx(), h.Owners, ref.Partition, (*identity.Grants).MayAdminister)
	}
	if err == nil {
		existed, err = h.DeadLetters.Delete(p.Ctx(), ref.Partition, ref.TransactionID)
	}
	if queue.CodeOf(err) == queue.CodeNotFound {
		err = nil
	}
	text := wire.MessageNotFound
	if existed {
		text = "Message deleted successfully"
	}
	return api.DeletedMessage{Success: existed, PartitionID: ref.PartitionText, TransactionID: ref.TransactionID, Message: text}, err
}

// readMessage reads the path, and consumerGroup and error from an optional body. group is nil if the
// body has no consumerGroup.
func (h *Handlers) readMessage(p *wire.Params) (ref wire.MessagePath, group *string, reason string, err error) {
	if ref, err = wire.ReadMessagePath(p); err != nil {
		return ref, nil, "", err
	}
	err = h.Bodies.ReadOptionalObject(p, func(name string, value jsontext.Value) error {
		if value.Kind() == 'n' {
			return nil
		}
		switch name {
		case "consumerGroup":
			if err := nameMember("consumerGroup", value, &group); err != nil {
				return err
			}
			if *group == "" {
				group = nil
			}
		case "error":
			var ok bool
			if reason, ok = wire.Text(value); !ok {
				return queue.Invalidf("error must be a string, not %s", wire.Clip(string(value)))
			}
		}
		return nil
	})
	return ref, group, wire.ReplaceNUL(reason), err
}

// DeadLetterMessage serves POST /api/v1/messages/:partitionId/:transactionId/dlq.
// The message becomes a dead letter for a group, even if a lease covers it.
func (h *Handlers) DeadLetterMessage(p *wire.Params) (any, error) {
	ref, group, reason, err := h.readMessage(p)
	if err != nil {
		return nil, err
	}
	hint := ""
	if group == nil {
		group = wire.OrNull(queue.DefaultGroup)
		hint = "; to make it a dead letter of a consumer group, send the group as consumerGroup"
	}
	if reason == "" {
		reason = "Moved to the dead letter queue"
	}
	beginMessageAudit(p, &ref, group)
	err = wire.FindPartition(p.Ctx(), h.Owners, ref.Partition, func(g *identity.Grants, queueName string) bool { return g.MayConsume(queueName, *group) })
	if err != nil {
		return nil, err
	}
	ack := queue.AckItem{
		TransactionID: ref.TransactionID, PartitionID: ref.PartitionText, Group: *group, Status: queue.AckDead, Error: reason,
	}
	done, err := h.Transactor.Transact(p.Ctx(), &queue.Transaction{Operations: []queue.Operation{{Ack: &ack}}})
	if err != nil {
		return nil, err
	}
	if text := done.Operations[0].Error; !done.Applied {
		if text != wire.MessageNotFound {
			text += hint
		}
		return nil, &queue.Error{Code: queue.CodeNotFound, Message: text}
	}
	h.Meter.Acknowledged([]queue.AckItem{ack}, []queue.AckResult{*done.Operations[0].Ack})
	return api.ParkedMessage{Success: true, PartitionID: ref.PartitionText, TransactionID: ref.TransactionID, Group: *group, DeadLetter: true}, nil
}

// RetryMessage serves POST /api/v1/messages/:partitionId/:transactionId/retry. It
// redrives a message for one group, or for all groups that have it as a dead letter.
func (h *Handlers) RetryMessage(p *wire.Params) (any, error) {
	ref, group, _, err := h.readMessage(p)
	if err != nil {
		return nil, err
	}
	beginMessageAudit(p, &ref, group)
	err = wire.FindPartition(p.Ctx(), h.Owners, ref.Partition, func(g *identity.Grants, queueName string) bool {
		if group == nil {
			return g.MayAdminister(queueName)
		}
		return g.MayConsume(queueName, *group)
	})
	if err != nil {
		return nil, err
	}
	n, err := h.DeadLetters.Retry(p.Ctx(), ref.Partition, ref.TransactionID, group)
	return api.RetriedMessage{Success: true, PartitionID: ref.PartitionText, TransactionID: ref.TransactionID, Group: group, Redriven: n}, err
}
