package adminplane

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/stats"
)

type tagCountsJSON struct {
	Total   int64 `json:"total"`
	Pending int64 `json:"pending"`
}

// tagJSON is a namespace or a task: one of the two names is set.
type tagJSON struct {
	Namespace  *string       `json:"namespace,omitempty"`
	Task       *string       `json:"task,omitempty"`
	Queues     int64         `json:"queues"`
	Partitions int64         `json:"partitions"`
	Messages   tagCountsJSON `json:"messages"`
}

func toTagJSON(t *stats.Tag) tagJSON {
	return tagJSON{Queues: t.Queues, Partitions: t.Partitions, Messages: tagCountsJSON{t.Counts.Total, t.Counts.Pending}}
}

// Namespaces serves GET /api/v1/resources/namespaces.
func (h *Handlers) Namespaces(c echo.Context) error {
	found, err := h.Resources.Namespaces(c.Request().Context())
	if err != nil {
		return err
	}
	list := each(found, func(t *stats.Tag) tagJSON {
		tag := toTagJSON(t)
		tag.Namespace = &t.Name
		return tag
	})
	return wire.AnswerJSON(c, http.StatusOK, map[string][]tagJSON{"namespaces": list})
}

// Tasks serves GET /api/v1/resources/tasks.
func (h *Handlers) Tasks(c echo.Context) error {
	found, err := h.Resources.Tasks(c.Request().Context())
	if err != nil {
		return err
	}
	list := each(found, func(t *stats.Tag) tagJSON {
		tag := toTagJSON(t)
		tag.Task = &t.Name
		return tag
	})
	return wire.AnswerJSON(c, http.StatusOK, map[string][]tagJSON{"tasks": list})
}

type spreadJSON struct {
	Avg    int64 `json:"avg"`
	Median int64 `json:"median"`
	Min    int64 `json:"min"`
	Max    int64 `json:"max"`
}

type lagJSON struct {
	Time   spreadJSON `json:"time"`
	Offset spreadJSON `json:"offset"`
}

type throughputJSON struct {
	IngestedPerSecond  float64 `json:"ingestedPerSecond"`
	ProcessedPerSecond float64 `json:"processedPerSecond"`
}

type overviewJSON struct {
	Queues     int64          `json:"queues"`
	Partitions int64          `json:"partitions"`
	Namespaces int64          `json:"namespaces"`
	Tasks      int64          `json:"tasks"`
	Messages   countsJSON     `json:"messages"`
	Lag        lagJSON        `json:"lag"`
	Throughput throughputJSON `json:"throughput"`
	Timestamp  string         `json:"timestamp"`
	// StatsAge is always 0, because the numbers are live.
	StatsAge int64 `json:"statsAge"`
}

// Overview serves GET /api/v1/resources/overview. Its throughput covers the last
// minute of this instance only.
func (h *Handlers) Overview(c echo.Context) error {
	o, err := h.Resources.Overview(c.Request().Context())
	if err != nil {
		return err
	}
	ingested, processed := h.Meter.Throughput()
	return wire.AnswerJSON(c, http.StatusOK, overviewJSON{
		Queues: o.Queues, Partitions: o.Partitions, Namespaces: o.Namespaces, Tasks: o.Tasks, Messages: toCountsJSON(o.Counts),
		Lag:        lagJSON{Time: spreadJSON(o.TimeLag), Offset: spreadJSON(o.OffsetLag)},
		Throughput: throughputJSON{IngestedPerSecond: ingested, ProcessedPerSecond: processed},
		Timestamp:  wire.FormatMillis(time.Now()),
	})
}
