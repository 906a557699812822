package queen

import (
	"cmp"
	"slices"
	"time"

	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/insight/history"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// intervals has the values of the parameter interval of GET /status/analytics.
var intervals = map[string]time.Duration{"minute": time.Minute, "hour": time.Hour, "day": 24 * time.Hour}

// analyticsSpan is the duration that GET /status/analytics covers if the request has no from.
const analyticsSpan = 24 * time.Hour

// Analytics serves GET /api/v1/status/analytics.
func (h *Handlers) Analytics(p *wire.Params) (any, error) {
	name := cmp.Or(p.QueryParam("interval"), "hour")
	bucket, known := intervals[name]
	if !known {
		return nil, queue.Invalidf("interval is %q: it must be minute, hour or day", wire.Clip(name))
	}
	q, err := wire.ReadHistoryQuery(p, analyticsSpan)
	if err != nil {
		return nil, err
	}
	if q.SetRange(time.Now().UTC(), bucket); q.To.Sub(q.From)/bucket > wire.MaxBuckets {
		return nil, queue.Invalidf("from and to are more than %[2]d intervals (%[1]s) apart: send a longer interval or a later from", name, wire.MaxBuckets)
	}
	found, err := h.Observe.History.Sums(p.Ctx(), q.Range, q.Filter)
	return wire.Fields{
		"dataPoints", wire.Each(found, func(b *history.Bucket) wire.Fields {
			return wire.Fields{"timestamp", wire.BucketTime(b.At), "messages", b.PushMessages}
		}),
		"interval", name, "from", q.Since, "to", q.Until,
	}, err
}

// ParkedReplicas serves GET /api/v1/analytics/queue-parked-replicas.
func (h *Handlers) ParkedReplicas(p *wire.Params) (any, error) {
	q, err := wire.ReadHistoryQuery(p, wire.DefaultSpan)
	if err != nil {
		return nil, err
	}
	parked, err := h.Observe.History.Parked(p.Ctx(), q.Range, q.Filter)
	type replica struct {
		Hostname string `json:"hostname"`
		WorkerID int64  `json:"workerId"`
	}
	replicas := []replica{}
	series := wire.Each(parked, func(one *history.Parked) wire.Fields {
		replicas = append(replicas, replica{one.Hostname, one.PID})
		return wire.Fields{"bucket", wire.BucketTime(one.At), "queueName", one.Queue, "hostname", one.Hostname, "workerId", one.PID, "parkedCount", one.Count}
	})
	slices.SortFunc(replicas, func(a, b replica) int {
		return cmp.Or(cmp.Compare(a.Hostname, b.Hostname), cmp.Compare(a.WorkerID, b.WorkerID))
	})
	return append(head(&q), "series", series, "replicas", slices.Compact(replicas)), err
}

// Refresh serves POST /api/v1/stats/refresh. Belfry does not cache statistics, so Refresh does nothing.
func (h *Handlers) Refresh(*wire.Params) (any, error) {
	done := wire.Fields{}
	return wire.Fields{
		"skipped", true, "reason", "Nothing to refresh: all statistics are live",
		"partition", done, "queue", done, "namespace", done, "task", done, "system", done, "cleanup", done,
	}, nil
}
