package observe

import (
	"time"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/insight/stats"
)

// Namespaces serves GET /api/v1/resources/namespaces.
func (h *Handlers) Namespaces(p *wire.Params) (any, error) {
	found, err := h.Resources.Namespaces(p.Ctx(), readable(p))
	return api.Namespaces{Namespaces: wire.Each(found, func(t *stats.Tag) api.Namespace {
		return api.Namespace{Namespace: t.Name, Queues: t.Queues, Partitions: t.Partitions, Messages: tagCounts(t)}
	})}, err
}

// Tasks serves GET /api/v1/resources/tasks.
func (h *Handlers) Tasks(p *wire.Params) (any, error) {
	found, err := h.Resources.Tasks(p.Ctx(), readable(p))
	return api.Tasks{Tasks: wire.Each(found, func(t *stats.Tag) api.Task {
		return api.Task{Task: t.Name, Queues: t.Queues, Partitions: t.Partitions, Messages: tagCounts(t)}
	})}, err
}

func tagCounts(t *stats.Tag) api.TagCounts {
	return api.TagCounts{Total: t.Counts.Total, Pending: t.Counts.Pending}
}

// Overview serves GET /api/v1/resources/overview. The throughput covers the last minute
// of this instance. A token with grants gets no throughput.
func (h *Handlers) Overview(p *wire.Params) (any, error) {
	o, err := h.Resources.Overview(p.Ctx(), readable(p))
	var throughput *api.Throughput // includes queues that the grants do not allow
	if identity.GrantsOf(p.Ctx()) == nil {
		ingested, processed := h.Meter.Throughput()
		throughput = &api.Throughput{IngestedPerSecond: ingested, ProcessedPerSecond: processed}
	}
	return api.Overview{
		Queues: o.Queues, Partitions: o.Partitions, Namespaces: o.Namespaces, Tasks: o.Tasks, Messages: counts(o.Counts),
		Lag: api.Lag{Time: o.TimeLag, Offset: o.OffsetLag}, Throughput: throughput, Timestamp: time.Now(),
	}, err
}
