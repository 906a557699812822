package observe

import (
	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/engine/deadletter"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/insight/stats"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// ShowMessage serves GET /api/v1/messages/:partitionId/:transactionId.
func (h *Handlers) ShowMessage(p *wire.Params) (any, error) {
	ref, err := wire.ReadMessagePath(p)
	if err != nil {
		return nil, err
	}
	if err := wire.FindPartition(p.Ctx(), h.Owners, ref.Partition, (*identity.Grants).MayRead); err != nil {
		return nil, err
	}
	found, err := h.Reader.Message(p.Ctx(), ref.Partition, ref.TransactionID)
	m := stats.Message{
		ID: found.ID, TransactionID: ref.TransactionID, TraceID: found.TraceID, ProducerSub: found.ProducerSub, Headers: found.Headers,
		CreatedAt: found.CreatedAt, VisibleAt: found.VisibleAt, Queue: found.Queue, Namespace: found.Namespace, Task: found.Task, Priority: found.Priority,
		PartitionID: ref.Partition, Partition: found.Partition,
	}
	var failure *string
	var failures int
	if dead := addReaders(&m, found.Groups); dead != nil {
		failure, failures = &dead.Error, dead.Failures
	}
	mode := messageMode(stats.Mode{QueueMode: m.QueueStatus != "", Groups: m.Groups})
	return api.StoredMessage{
		ListedMessage: messageRow(&m), Payload: found.Payload, PayloadError: found.PayloadError, IsEncrypted: found.Encrypted,
		ErrorMessage: failure, RetryCount: int64(failures),
		QueueConfig: api.MessageQueue{
			LeaseTime: found.LeaseTime, RetryLimit: found.RetryLimit, RetryDelay: found.RetryDelay, TTL: found.TTL, Priority: int(found.Priority),
		},
		Mode: api.StoredMode{MessageMode: mode, ConsumedByGroups: m.DoneBy},
		ConsumerGroups: wire.Each(found.Groups, func(g *deadletter.GroupState) api.MessageGroup {
			return api.MessageGroup{Name: g.Group, Consumed: g.Consumed, LeaseExpiresAt: &g.LeasedUntil}
		}),
	}, err
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
