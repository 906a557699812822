package observe

import (
	"time"

	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/insight/stats"
)

// Namespaces serves GET /api/v1/resources/namespaces.
func (h *Handlers) Namespaces(p *wire.Params) (any, error) {
	found, err := h.Resources.Namespaces(p.Ctx(), readable(p))
	return wire.Fields{"namespaces", tagRows("namespace", found)}, err
}

// Tasks serves GET /api/v1/resources/tasks.
func (h *Handlers) Tasks(p *wire.Params) (any, error) {
	found, err := h.Resources.Tasks(p.Ctx(), readable(p))
	return wire.Fields{"tasks", tagRows("task", found)}, err
}

func tagRows(kind string, tags []stats.Tag) []wire.Fields {
	return wire.Each(tags, func(t *stats.Tag) wire.Fields {
		return wire.Fields{
			kind, t.Name, "queues", t.Queues, "partitions", t.Partitions,
			"messages", wire.Fields{"total", t.Counts.Total, "pending", t.Counts.Pending},
		}
	})
}

// Overview serves GET /api/v1/resources/overview. Its throughput covers the last
// minute of this instance only. A token with grants gets none.
func (h *Handlers) Overview(p *wire.Params) (any, error) {
	o, err := h.Resources.Overview(p.Ctx(), readable(p))
	var throughput any // of all queues
	if identity.GrantsOf(p.Ctx()) == nil {
		ingested, processed := h.Meter.Throughput()
		throughput = wire.Fields{"ingestedPerSecond", ingested, "processedPerSecond", processed}
	}
	return wire.Fields{
		"queues", o.Queues, "partitions", o.Partitions, "namespaces", o.Namespaces, "tasks", o.Tasks,
		"messages", toCountsJSON(o.Counts),
		"lag", wire.Fields{"time", spread(o.TimeLag), "offset", spread(o.OffsetLag)},
		"throughput", throughput,
		"timestamp", time.Now(),
		"statsAge", 0, // the numbers are live
	}, err
}

func spread(d stats.Distribution) wire.Fields {
	return wire.Fields{"avg", d.Avg, "median", d.Median, "min", d.Min, "max", d.Max}
}
