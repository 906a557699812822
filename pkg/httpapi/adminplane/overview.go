package adminplane

import (
	"time"

	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/stats"
)

type tagCountsJSON struct {
	Total   int64 `json:"total"`
	Pending int64 `json:"pending"`
}

// tagJSON is a namespace or a task: one of the two names is set.
type tagJSON struct {
	Namespace *string `json:"namespace,omitzero"`
	Task      *string `json:"task,omitzero"`
	tagFiguresJSON
}

type tagFiguresJSON struct {
	Queues     int64         `json:"queues"`
	Partitions int64         `json:"partitions"`
	Messages   tagCountsJSON `json:"messages"`
}

func toTagFigures(t *stats.Tag) tagFiguresJSON {
	return tagFiguresJSON{t.Queues, t.Partitions, tagCountsJSON{t.Counts.Total, t.Counts.Pending}}
}

// Namespaces serves GET /api/v1/resources/namespaces.
func (h *Handlers) Namespaces(p *wire.Params) (any, error) {
	found, err := h.Resources.Namespaces(p.Ctx())
	return wire.Fields{"namespaces", each(found, func(t *stats.Tag) tagJSON {
		return tagJSON{Namespace: &t.Name, tagFiguresJSON: toTagFigures(t)}
	})}, err
}

// Tasks serves GET /api/v1/resources/tasks.
func (h *Handlers) Tasks(p *wire.Params) (any, error) {
	found, err := h.Resources.Tasks(p.Ctx())
	return wire.Fields{"tasks", each(found, func(t *stats.Tag) tagJSON {
		return tagJSON{Task: &t.Name, tagFiguresJSON: toTagFigures(t)}
	})}, err
}

type spreadJSON struct {
	Avg    int64 `json:"avg"`
	Median int64 `json:"median"`
	Min    int64 `json:"min"`
	Max    int64 `json:"max"`
}

// Overview serves GET /api/v1/resources/overview. Its throughput covers the last
// minute of this instance only.
func (h *Handlers) Overview(p *wire.Params) (any, error) {
	o, err := h.Resources.Overview(p.Ctx())
	ingested, processed := h.Meter.Throughput()
	return wire.Fields{
		"queues", o.Queues, "partitions", o.Partitions, "namespaces", o.Namespaces, "tasks", o.Tasks, "messages", toCountsJSON(o.Counts),
		"lag", wire.Fields{"time", spreadJSON(o.TimeLag), "offset", spreadJSON(o.OffsetLag)},
		"throughput", wire.Fields{"ingestedPerSecond", ingested, "processedPerSecond", processed},
		"timestamp", time.Now(),
		"statsAge", 0, // the numbers are live
	}, err
}
