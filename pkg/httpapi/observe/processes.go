package observe

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/insight/history"
)

// process is one process in a Range.
type process struct {
	hostname  string
	port, pid int64
	// buckets are the figures, the oldest first. last is the latest one.
	buckets []history.InstanceBucket
	popped  int64
}

func (p *process) last() *history.InstanceBucket { return &p.buckets[len(p.buckets)-1] }

// readProcesses returns the processes that have figures. For a token with grants it returns none.
func (h *Handlers) readProcesses(ctx context.Context, q *Query, hostname, pid *string) ([]process, error) {
	if q.limited {
		return nil, nil
	}
	rows, err := h.History.Instances(ctx, q.Range, hostname, pid)
	if err != nil {
		return nil, err
	}
	type name struct {
		hostname  string
		port, pid int64
	}
	byName := map[name]*process{}
	for i := range rows {
		row := &rows[i]
		key := name{row.Hostname, row.Port, row.PID}
		if byName[key] == nil {
			byName[key] = &process{hostname: row.Hostname, port: row.Port, pid: row.PID}
		}
		byName[key].buckets = append(byName[key].buckets, *row)
		byName[key].popped += row.Popped
	}
	found := make([]process, 0, len(byName))
	for _, p := range byName {
		found = append(found, *p)
	}
	slices.SortFunc(found, func(a, b process) int {
		return cmp.Or(cmp.Compare(a.hostname, b.hostname), cmp.Compare(a.port, b.port), cmp.Compare(a.pid, b.pid))
	})
	return found, nil
}

// totals are the figures of all processes together in a bucket.
type totals struct {
	dbErrors                         int64
	cpuUser, cpuSystem, rss          float64
	poolSize, poolIdle, poolAcquired float64
}

// totalsOf adds up the processes by the begin of a bucket. A process without a row in a bucket did nothing
// worth one. The memory and the pool of its row before hold on, and CPU and errors are 0.
func totalsOf(q *Query, processes []process) map[int64]*totals {
	found := map[int64]*totals{}
	for i := range processes {
		rest := processes[i].buckets
		var latest *history.InstanceBucket
		for at := q.From; at.Before(q.To); at = at.Add(q.Bucket) {
			t := found[at.Unix()]
			if t == nil {
				t = &totals{}
				found[at.Unix()] = t
			}
			if len(rest) > 0 && !rest[0].At.After(at) {
				latest, rest = &rest[0], rest[1:]
				t.dbErrors += latest.DBErrors
				t.cpuUser += latest.CPUUser[1]
				t.cpuSystem += latest.CPUSystem[1]
			}
			if latest != nil && (len(rest) > 0 || at.Sub(latest.At) <= forward) {
				t.rss += latest.RSSBytes[1]
				t.poolSize += latest.PoolSize[1]
				t.poolIdle += latest.PoolIdle[1]
				t.poolAcquired += latest.PoolUsed[1]
			}
		}
	}
	return found
}

// forward is how long the last row of a process holds. The process may have ended since.
const forward = time.Hour

// SystemMetrics serves GET /api/v1/analytics/system-metrics.
func (h *Handlers) SystemMetrics(p *wire.Params) (any, error) {
	q, err := ReadQuery(p, DefaultSpan)
	hostname, pid := p.Name("hostname"), p.Name("workerId")
	if err = cmp.Or(err, p.Err); err != nil {
		return nil, err
	}
	processes, err := h.readProcesses(p.Ctx(), &q, hostname, pid)
	points := 0
	replicas := wire.Each(processes, func(one *process) wire.Fields {
		points += len(one.buckets)
		return wire.Fields{"hostname", one.hostname, "port", one.port, "workerId", strconv.FormatInt(one.pid, 10), "timeSeries", wire.Each(one.buckets, systemPoint)}
	})
	return append(q.Head(), "replicas", replicas, "replicaCount", len(replicas), "pointCount", points), err
}

// systemPoint is one point of system-metrics. CPU is percent of one core, multiplied by 100.
func systemPoint(b *history.InstanceBucket) wire.Fields {
	spread := func(f history.Figure, factor float64) wire.Fields {
		return wire.Fields{"avg", rounded(f[1] * factor), "min", rounded(f[0] * factor), "max", rounded(f[2] * factor), "last", rounded(f[3] * factor)}
	}
	none := spread(history.Figure{}, 1)
	threads := wire.Fields{"pool_size", none, "queue_size", none}
	return wire.Fields{
		"timestamp", BucketTime(b.At), "sampleCount", b.Samples, "metrics", wire.Fields{
			"cpu", wire.Fields{"user_us", spread(b.CPUUser, 100), "system_us", spread(b.CPUSystem, 100)},
			"memory", wire.Fields{"rss_bytes", spread(b.RSSBytes, 1), "virtual_bytes", none},
			"database", wire.Fields{"pool_size", spread(b.PoolSize, 1), "pool_idle", spread(b.PoolIdle, 1), "pool_active", spread(b.PoolUsed, 1)},
			"threadpool", wire.Fields{"db", threads, "system", threads},
			"registries", wire.Fields{"response", none},
			"shared_state", wire.Fields{},
		},
	}
}
