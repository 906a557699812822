package observe

import (
	"cmp"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/dispatch"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/insight/explain"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Explain serves GET /api/v1/explain. It explains why a group receives a message or does not receive it. Queen
// MQ does not have this route.
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
	var attempts *api.Attempts
	if found := a.Attempts; found != nil {
		attempts = &api.Attempts{
			Deliveries: found.Deliveries, Failures: found.Failures, LeasedUntil: &found.LeasedUntil, RetryAt: &found.RetryAt, RedrivenAt: &found.RedrivenAt,
		}
	}
	return api.Explanation{
		Code: string(a.Code), Sentence: a.Sentence, NextChangeAt: &a.NextChangeAt, Queue: q.Queue, Partition: wire.OrNull(a.Partition),
		ConsumerGroup: q.Group, TransactionID: wire.OrNull(q.TransactionID), NextTransactionID: wire.OrNull(a.Next), Schedule: wire.OrNull(a.Schedule), Headers: a.Headers.Map(), Failures: a.Failures,
		Deliveries: a.Deliveries, Lag: a.Lag, Ahead: a.Ahead, Waiting: int64(a.Waiting), Sweeps: a.Sweeps, ConsumedAt: &a.ConsumedAt,
		Attempts: attempts, Timestamp: a.At,
	}, err
}
