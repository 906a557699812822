package adminplane

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/engine/deadletter"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/insight/stats"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// messageNotFound is a text that clients of Queen MQ know.
const messageNotFound = "Message not found"

// messagePath is the message that a path names.
type messagePath struct {
	partition                    queue.ID
	partitionText, transactionID string
}

// beginAudit begins the audit of a change of the message, for a group or for all. The room that finds
// the message adds the names of its queue and partition.
func (m *messagePath) beginAudit(p *wire.Params, group *string) {
	audit.Begin(p.Ctx(), audit.Target{TransactionID: m.transactionID, Group: orEmpty(group)}, audit.Parameters{"partitionId": m.partitionText})
}

// readMessagePath reads the path. The error for a partition that is not a UUID is
// CodeNotFound.
func readMessagePath(p *wire.Params) (ref messagePath, err error) {
	ref.partitionText = p.PathName("partitionId")
	// A transaction id has at most 255 characters, which can be more bytes than a
	// name.
	ref.transactionID = p.PathText("transactionId")
	if p.Err != nil {
		return ref, p.Err
	}
	ref.partition, err = parsePartition(ref.partitionText)
	return ref, err
}

func parsePartition(text string) (queue.ID, error) {
	id, err := queue.ParseID(text)
	if err != nil {
		err = &queue.Error{Code: queue.CodeNotFound, Message: messageNotFound}
	}
	return id, err
}

// ShowMessage serves GET /api/v1/messages/:partitionId/:transactionId.
func (h *Handlers) ShowMessage(p *wire.Params) (any, error) {
	ref, err := readMessagePath(p)
	if err != nil {
		return nil, err
	}
	if err := h.findPartition(p.Ctx(), ref.partition, (*identity.Grants).MayRead); err != nil {
		return nil, err
	}
	found, err := h.DeadLetters.Message(p.Ctx(), ref.partition, ref.transactionID)
	m := stats.Message{
		ID: found.ID, TransactionID: ref.transactionID, TraceID: found.TraceID, ProducerSub: found.ProducerSub,
		CreatedAt: found.CreatedAt, Queue: found.Queue, Namespace: found.Namespace, Task: found.Task, Priority: found.Priority,
		PartitionID: ref.partition, Partition: found.Partition,
	}
	var failure *string
	var failures int
	if dead := addReaders(&m, found.Groups); dead != nil {
		failure, failures = &dead.Error, dead.Failures
	}
	answer := append(messageRow(&m), "payload", wire.Stored(found.Payload))
	if found.PayloadError != "" {
		answer = append(answer, "payloadError", found.PayloadError)
	}
	mode := messageMode(stats.Mode{QueueMode: m.QueueStatus != "", Groups: m.Groups})
	return append(answer,
		"isEncrypted", found.Encrypted, "errorMessage", failure, "retryCount", failures,
		"queueConfig", wire.Fields{
			"leaseTime", found.LeaseTime, "retryLimit", found.RetryLimit, "retryDelay", found.RetryDelay,
			"ttl", found.TTL, "priority", found.Priority,
		},
		"mode", append(mode, "consumedByGroups", m.DoneBy),
		"consumerGroups", each(found.Groups, func(g *deadletter.GroupState) wire.Fields {
			return wire.Fields{"name", g.Group, "consumed", g.Consumed, "leaseExpiresAt", g.LeasedUntil}
		})), err
}

// addReaders sets the status of m from the progress of all readers: the consumer
// groups, and the reader without a group. It returns the newest dead letter, or nil.
func addReaders(m *stats.Message, readers []deadletter.GroupState) (dead *deadletter.GroupState) {
	for i := range readers {
		r := &readers[i]
		switch {
		case r.Group != queue.DefaultGroup:
			m.Groups++
			if r.Consumed {
				m.DoneBy++
			}
		case r.Consumed:
			m.QueueStatus = stats.StatusCompleted
		case !r.LeasedUntil.IsZero():
			m.QueueStatus = stats.StatusProcessing
		default:
			m.QueueStatus = stats.StatusPending
		}
		if r.LeasedUntil.After(m.LeasedUntil) {
			m.LeasedUntil = r.LeasedUntil
		}
		if r.Dead && (dead == nil || r.FailedAt.After(dead.FailedAt)) {
			dead = r
		}
	}
	switch {
	case dead != nil:
		m.Status = stats.StatusDeadLetter
	case m.QueueStatus != "":
		m.Status = m.QueueStatus
	case m.Groups > 0 && m.DoneBy == m.Groups:
		m.Status = stats.StatusCompleted
	default:
		m.Status = stats.StatusPending
	}
	return dead
}

// DeleteMessage serves DELETE /api/v1/messages/:partitionId/:transactionId. The
// answer for a message that does not exist is a 200 too, as in Queen MQ.
func (h *Handlers) DeleteMessage(p *wire.Params) (any, error) {
	ref, err := readMessagePath(p)
	var existed bool
	if err == nil {
		ref.beginAudit(p, nil)
		err = h.findPartition(p.Ctx(), ref.partition, (*identity.Grants).MayAdminister)
	}
	if err == nil {
		existed, err = h.DeadLetters.Delete(p.Ctx(), ref.partition, ref.transactionID)
	}
	if queue.CodeOf(err) == queue.CodeNotFound {
		err = nil
	}
	text := messageNotFound
	if existed {
		text = "Message deleted successfully"
	}
	return wire.Fields{"success", existed, "partitionId", ref.partitionText, "transactionId", ref.transactionID, "message", text}, err
}

// readGroup reads consumerGroup and error of an optional body. group is nil when
// the body names none.
func (h *Handlers) readGroup(p *wire.Params) (group *string, reason string, err error) {
	err = h.Bodies.ReadOptionalObject(p, func(name string, value jsontext.Value) error {
		if value.Kind() == 'n' {
			return nil
		}
		switch name {
		case "consumerGroup":
			if err := wire.NameMember("consumerGroup", value, &group); err != nil {
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
	return group, wire.ReplaceNUL(reason), err
}

// DeadLetterMessage serves POST /api/v1/messages/:partitionId/:transactionId/dlq.
// The message becomes a dead letter for a group, also when a lease covers it.
func (h *Handlers) DeadLetterMessage(p *wire.Params) (any, error) {
	ref, err := readMessagePath(p)
	if err != nil {
		return nil, err
	}
	group, reason, err := h.readGroup(p)
	if err != nil {
		return nil, err
	}
	hint := ""
	if group == nil {
		group = orNull(queue.DefaultGroup)
		hint = "; if a consumer group is to give the message up, name it in consumerGroup"
	}
	if reason == "" {
		reason = "Moved to the dead letter queue"
	}
	ref.beginAudit(p, group)
	err = h.findPartition(p.Ctx(), ref.partition, func(g *identity.Grants, queueName string) bool { return g.MayConsume(queueName, *group) })
	if err != nil {
		return nil, err
	}
	ack := queue.AckItem{
		TransactionID: ref.transactionID, PartitionID: ref.partitionText, Group: *group, Status: queue.AckDead, Error: reason,
	}
	done, err := h.Transactor.Transact(p.Ctx(), &queue.Transaction{Operations: []queue.Operation{{Ack: &ack}}})
	if err != nil {
		return nil, err
	}
	if text := done.Operations[0].Error; !done.Applied {
		if text != messageNotFound {
			text += hint
		}
		return nil, &queue.Error{Code: queue.CodeNotFound, Message: text}
	}
	h.Meter.Acknowledged([]queue.AckItem{ack}, []queue.AckResult{*done.Operations[0].Ack})
	return wire.Fields{
		"success", true, "partitionId", ref.partitionText, "transactionId", ref.transactionID,
		"consumerGroup", group, "dlq", true,
	}, nil
}

// RetryMessage serves POST /api/v1/messages/:partitionId/:transactionId/retry. It
// redrives one message: for one group, or for all groups that have it as a dead
// letter.
func (h *Handlers) RetryMessage(p *wire.Params) (any, error) {
	ref, err := readMessagePath(p)
	if err != nil {
		return nil, err
	}
	group, _, err := h.readGroup(p)
	if err != nil {
		return nil, err
	}
	ref.beginAudit(p, group)
	err = h.findPartition(p.Ctx(), ref.partition, func(g *identity.Grants, queueName string) bool {
		if group == nil {
			return g.MayAdminister(queueName)
		}
		return g.MayConsume(queueName, *group)
	})
	if err != nil {
		return nil, err
	}
	n, err := h.DeadLetters.Retry(p.Ctx(), ref.partition, ref.transactionID, group)
	return wire.Fields{
		"success", true, "partitionId", ref.partitionText, "transactionId", ref.transactionID,
		"consumerGroup", group, "redriven", n,
	}, err
}
