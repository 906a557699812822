package observe

import (
	"cmp"

	"github.com/belfry-mq/belfry/pkg/dispatch"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/insight/explain"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Explain serves GET /api/v1/explain: why a group receives, or does not receive, a message. Queen MQ does
// not have it.
func (h *Handlers) Explain(p *wire.Params) (any, error) {
	q := explain.Question{
		Queue: p.Text("queue"), Partition: p.Text("partition"),
		Group: cmp.Or(p.Text("consumerGroup"), queue.DefaultGroup), TransactionID: p.TransactionID(),
	}
	if q.Queue == "" {
		p.Check(queue.Invalidf("queue is required"))
	}
	p.Check(wire.MayRead(p.Ctx(), q.Queue))
	if p.Err != nil {
		return nil, p.Err
	}
	a, err := h.Explainer.Explain(p.Ctx(), q, explain.Instance{
		PushMaintenance: h.Switches.PushPaused() != nil, PopMaintenance: h.Switches.PopPaused() != nil,
		Waiting: func(partition, namespace, task string) int {
			return h.Waiting.WaitingFor(dispatch.WaitingGroup{
				Queue: q.Queue, Partition: partition, Group: q.Group, Namespace: namespace, Task: task,
			})
		},
	})
	var attempts any
	if found := a.Attempts; found != nil {
		attempts = wire.Fields{
			"deliveries", found.Deliveries, "failures", found.Failures, "leasedUntil", found.LeasedUntil, "retryAt", found.RetryAt,
			"redrivenAt", found.RedrivenAt,
		}
	}
	return wire.Fields{
		"code", a.Code, "sentence", a.Sentence, "nextChangeAt", a.NextChangeAt, "queue", q.Queue, "partition", wire.OrNull(a.Partition),
		"consumerGroup", q.Group, "transactionId", wire.OrNull(q.TransactionID), "nextTransactionId", wire.OrNull(a.Next), "failures", a.Failures,
		"deliveries", a.Deliveries, "lag", a.Lag, "ahead", a.Ahead, "waiting", a.Waiting, "sweeps", a.Sweeps, "consumedAt", a.ConsumedAt, "attempts", attempts,
		"timestamp", a.At,
	}, err
}
