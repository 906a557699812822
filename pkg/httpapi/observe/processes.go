package observe

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/insight/history"
)

// Process has the figures of one process in the requested range.
type Process struct {
	Hostname  string
	Port, PID int64
	// Buckets has the figures, the oldest first. There is at least one bucket.
	Buckets []history.InstanceBucket
	Popped  int64
}

// Last returns the figures of the latest bucket.
func (p *Process) Last() *history.InstanceBucket { return &p.Buckets[len(p.Buckets)-1] }

// ReadProcesses returns the processes that have figures. For a token with grants it returns no processes.
func (h *Handlers) ReadProcesses(ctx context.Context, q *wire.HistoryQuery, hostname, pid *string) ([]Process, error) {
	if q.Limited {
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
	byName := map[name]*Process{}
	for i := range rows {
		row := &rows[i]
		key := name{row.Hostname, row.Port, row.PID}
		if byName[key] == nil {
			byName[key] = &Process{Hostname: row.Hostname, Port: row.Port, PID: row.PID}
		}
		byName[key].Buckets = append(byName[key].Buckets, *row)
		byName[key].Popped += row.Popped
	}
	found := make([]Process, 0, len(byName))
	for _, p := range byName {
		found = append(found, *p)
	}
	slices.SortFunc(found, func(a, b Process) int {
		return cmp.Or(cmp.Compare(a.Hostname, b.Hostname), cmp.Compare(a.Port, b.Port), cmp.Compare(a.PID, b.PID))
	})
	return found, nil
}

// Totals has the sums over all processes in a bucket.
type Totals struct {
	DBErrors                         int64
	CPUUser, CPUSystem, RSS          float64
	PoolSize, PoolIdle, PoolAcquired float64
}

// totalsOf returns the sums over all processes by the start of each bucket. An idle process writes no row.
// In a bucket without a row of a process, its CPU and errors are 0, and its memory and pool have the values of
// its previous row.
func totalsOf(q *wire.HistoryQuery, processes []Process) map[int64]*Totals {
	found := map[int64]*Totals{}
	for i := range processes {
		rest := processes[i].Buckets
		var latest *history.InstanceBucket
		for at := q.From; at.Before(q.To); at = at.Add(q.Bucket) {
			t := found[at.Unix()]
			if t == nil {
				t = &Totals{}
				found[at.Unix()] = t
			}
			if len(rest) > 0 && !rest[0].At.After(at) {
				latest, rest = &rest[0], rest[1:]
				t.DBErrors += latest.DBErrors
				t.CPUUser += latest.CPUUser[1]
				t.CPUSystem += latest.CPUSystem[1]
			}
			if latest != nil && (len(rest) > 0 || at.Sub(latest.At) <= forward) {
				t.RSS += latest.RSSBytes[1]
				t.PoolSize += latest.PoolSize[1]
				t.PoolIdle += latest.PoolIdle[1]
				t.PoolAcquired += latest.PoolUsed[1]
			}
		}
	}
	return found
}

// Points returns the point of each bucket, the newest first. A bucket without counts has zeros.
func Points[P any](q *wire.HistoryQuery, found []history.Bucket, processes []Process, point func(at time.Time, c *history.Counts, t *Totals) P) []P {
	counts, figures := map[int64]*history.Counts{}, totalsOf(q, processes)
	for i := range found {
		counts[found[i].At.Unix()] = &found[i].Counts
	}
	points := []P{}
	q.Buckets(func(at time.Time) {
		points = append(points, point(at, cmp.Or(counts[at.Unix()], &history.Counts{}), cmp.Or(figures[at.Unix()], &Totals{})))
	})
	return points
}

// forward is how long the values of the last row of a process are used. After that, the process has probably ended.
const forward = time.Hour

// SystemMetrics serves GET /api/v1/analytics/system-metrics.
func (h *Handlers) SystemMetrics(p *wire.Params) (any, error) {
	q, err := wire.ReadHistoryQuery(p, wire.DefaultSpan)
	hostname, pid := p.Name("hostname"), p.Name("workerId")
	if err = cmp.Or(err, p.Err); err != nil {
		return nil, err
	}
	processes, err := h.ReadProcesses(p.Ctx(), &q, hostname, pid)
	points := 0
	replicas := wire.Each(processes, func(one *Process) api.Replica {
		points += len(one.Buckets)
		return api.Replica{
			Hostname: one.Hostname, Port: one.Port, WorkerID: strconv.FormatInt(one.PID, 10), TimeSeries: wire.Each(one.Buckets, systemPoint),
		}
	})
	return api.SystemMetrics{HistorySpan: q.Span(), Replicas: replicas, ReplicaCount: int64(len(replicas)), PointCount: int64(points)}, err
}

// systemPoint returns one point of system-metrics. CPU is in hundredths of a percent of one core.
func systemPoint(b *history.InstanceBucket) api.SystemPoint {
	figure := func(f history.Figure, factor float64) api.Figure {
		return api.Figure{Avg: wire.Rounded(f[1] * factor), Min: wire.Rounded(f[0] * factor), Max: wire.Rounded(f[2] * factor), Last: wire.Rounded(f[3] * factor)}
	}
	return api.SystemPoint{
		Timestamp: wire.BucketTime(b.At), SampleCount: b.Samples, Metrics: api.SystemFigures{
			CPU:      api.SystemCPU{UserUs: figure(b.CPUUser, 100), SystemUs: figure(b.CPUSystem, 100)},
			Memory:   api.SystemMemory{RSSBytes: figure(b.RSSBytes, 1)},
			Database: api.SystemPool{PoolSize: figure(b.PoolSize, 1), PoolIdle: figure(b.PoolIdle, 1), PoolActive: figure(b.PoolUsed, 1)},
		},
	}
}
