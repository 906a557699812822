package observe

import (
	"cmp"
	"slices"
	"time"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/insight/history"
	"github.com/belfry-mq/belfry/pkg/insight/stats"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// WorkerMetrics serves GET /api/v1/analytics/worker-metrics.
func (h *Handlers) WorkerMetrics(p *wire.Params) (any, error) {
	q, err := wire.ReadHistoryQuery(p, wire.DefaultSpan)
	if err != nil {
		return nil, err
	}
	found, percentile, err := h.queueBuckets(p, &q, false)
	if err != nil {
		return nil, err
	}
	sums, err := h.History.Sums(p.Ctx(), q.Range, q.Filter)
	if err != nil {
		return nil, err
	}
	processes, err := h.ReadProcesses(p.Ctx(), &q, nil, nil)
	if err != nil {
		return nil, err
	}
	queues, err := h.LiveQueues(p, &q)
	var pending int64
	for i := range queues {
		pending += queues[i].Counts.Pending
	}
	points, dbErrors := workerPoints(&q, sums, processes)
	all := history.Sum(sums)
	return api.WorkerMetrics{
		HistorySpan: q.Span(), PointCount: int64(len(points)), TimeSeries: points,
		Workers: wire.Each(processes, worker), Queues: queueLags(found, percentile),
		Summary: api.WorkerSummary{
			TotalPushMessages: all.PushMessages, TotalPopMessages: all.PopMessages, TotalAckMessages: all.Acked(),
			TotalPushRequests: all.PushRequests, TotalPopRequests: all.PopRequests, TotalAckRequests: all.AckRequests,
			TotalDBErrors: dbErrors, TotalAckFailed: all.AckFailed, TotalDLQ: all.DeadLetters, PendingMessages: pending,
			TotalAckRetried: all.AckRetried, TotalAckRefused: all.AckRefused,
		},
	}, err
}

// queueBuckets returns the counts of the queues in each bucket, and the percentiles of their lags. If each is false, the
// buckets are longer, and the percentiles are for all buckets together.
func (h *Handlers) queueBuckets(p *wire.Params, q *wire.HistoryQuery, each bool) ([]history.Bucket, map[history.At]history.Percentiles, error) {
	span := q.Range
	if !each { // the caller adds up the buckets of a queue, so fewer buckets are enough
		span.Bucket = max(span.Bucket, span.To.Sub(span.From))
	}
	found, err := h.History.Queues(p.Ctx(), span, q.Filter)
	if err != nil {
		return nil, nil, err
	}
	percentile, err := h.History.Percentiles(p.Ctx(), q.Range, q.Filter, each)
	return found, percentile, err
}

// worker describes a process. Its last row stands for the minute after its instant, which may not have ended.
func worker(one *Process) api.Worker {
	last, now := one.Last(), time.Now().UTC()
	seen := last.LastAt.Add(time.Minute)
	if seen.After(now) {
		seen = now
	}
	return api.Worker{
		Hostname: one.Hostname, WorkerID: one.PID, DBConnections: int64(last.PoolSize[3]), MessagesProcessed: one.Popped, LastSeen: seen,
	}
}

// workerPoints returns the points of all buckets, the newest first, and the number of database errors in all buckets.
func workerPoints(q *wire.HistoryQuery, found []history.Bucket, processes []Process) (points []api.WorkerPoint, dbErrors int64) {
	points = Points(q, found, processes, func(at time.Time, c *history.Counts, t *Totals) api.WorkerPoint {
		dbErrors += t.DBErrors
		return api.WorkerPoint{
			Timestamp: wire.BucketTime(at), PushMessages: c.PushMessages, PopMessages: c.PopMessages, AckMessages: c.Acked(),
			PushRequests: c.PushRequests, PopRequests: c.PopRequests, AckRequests: c.AckRequests,
			JobsDone:      c.PushRequests + c.PopRequests + c.AckRequests + c.Transactions,
			PushPerSecond: q.PerSecond(at, c.PushMessages), PopPerSecond: q.PerSecond(at, c.PopMessages), AckPerSecond: q.PerSecond(at, c.Acked()),
			DBConnections: int64(t.PoolSize), AvgLagMs: wire.AverageLag(c), MaxLagMs: wire.MaxLag(c), LagCount: c.LagCount,
			DBErrors: t.DBErrors, Acknowledged: wire.Acknowledged(c),
		}
	})
	return points, dbErrors
}

// queueLags returns the lags of each queue over all buckets. The queue that delivered the most messages comes first.
func queueLags(found []history.Bucket, percentile map[history.At]history.Percentiles) []api.QueueDelays {
	sums, names := map[string]*history.Counts{}, []string{}
	for i := range found {
		if name := found[i].Queue; sums[name] == nil {
			sums[name] = &history.Counts{}
			names = append(names, name)
		}
		sums[found[i].Queue].Add(&found[i].Counts)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(sums[b].PopMessages, sums[a].PopMessages), cmp.Compare(a, b))
	})
	return wire.Each(names, func(name *string) api.QueueDelays {
		c := sums[*name]
		return api.QueueDelays{
			QueueName: *name, PushCount: c.PushMessages, PopCount: c.PopMessages, AvgLagMs: wire.AverageLag(c), MaxLagMs: wire.MaxLag(c),
			Percentiles: wire.Percentiles(percentile[history.At{Queue: *name}]), Acknowledged: wire.Acknowledged(c),
		}
	})
}

// QueueLag serves GET /api/v1/analytics/queue-lag. It lists the buckets in which a queue delivered messages.
func (h *Handlers) QueueLag(p *wire.Params) (any, error) {
	q, err := wire.ReadHistoryQuery(p, wire.DefaultSpan)
	if err != nil {
		return nil, err
	}
	found, percentile, err := h.queueBuckets(p, &q, true)
	found = slices.DeleteFunc(found, func(b history.Bucket) bool { return b.PopMessages == 0 })
	return wire.Each(found, func(b *history.Bucket) api.QueueLag {
		return api.QueueLag{
			QueueName: b.Queue, PopCount: b.PopMessages, AvgLagMs: wire.AverageLag(&b.Counts), MaxLagMs: wire.MaxLag(&b.Counts),
			BucketTime: wire.BucketTime(b.At), Percentiles: wire.Percentiles(percentile[history.At{Unix: b.At.Unix(), Queue: b.Queue}]),
		}
	}), err
}

// QueueOps serves GET /api/v1/analytics/queue-ops. It lists the buckets in which a queue has counts, waiting
// requests or, with the parameter queue, a backlog.
func (h *Handlers) QueueOps(p *wire.Params) (any, error) {
	names := p.Names("queues")
	q, err := wire.ReadHistoryQuery(p, wire.DefaultSpan)
	if err != nil {
		return nil, err
	}
	q.Queues = names
	if p.QueryParam("live") == "false" && (q.Namespace != nil || q.Task != nil) {
		return nil, queue.Invalidf("live is false: remove namespace and task, or remove live")
	}
	found, percentile, err := h.queueBuckets(p, &q, true)
	if err != nil {
		return nil, err
	}
	parked, err := h.History.Parked(p.Ctx(), q.Range, q.Filter)
	if err != nil {
		return nil, err
	}
	live, err := h.LiveQueues(p, &q)
	if err != nil {
		return nil, err
	}
	partitions := map[string]int64{}
	for i := range live {
		partitions[live[i].Name] = live[i].Partitions
	}
	if q.Namespace != nil || q.Task != nil {
		parked = slices.DeleteFunc(parked, func(one history.Parked) bool {
			_, selected := partitions[one.Queue]
			return !selected
		})
	}
	found, waiting := history.WithParked(found, parked)
	found, backlog, err := q.WithBacklog(p, h.History, found)
	if err != nil {
		return nil, err
	}
	listed := []string{}
	series := wire.Each(found, func(b *history.Bucket) api.QueueBucket {
		listed = append(listed, b.Queue)
		at := history.At{Unix: b.At.Unix(), Queue: b.Queue}
		return api.QueueBucket{
			Bucket: wire.BucketTime(b.At), QueueName: b.Queue, PushRequests: b.PushRequests, PushMessages: b.PushMessages,
			PopMessages: b.PopMessages, PopEmpty: b.PopEmpty, AckRequests: b.AckRequests, AckSuccess: b.AckSuccess, AckFailed: b.AckFailed,
			Transactions: b.Transactions, PartitionsCreated: b.PartitionsCreated, PartitionsDeleted: b.PartitionsDeleted,
			PartitionCount: partitions[b.Queue], AvgLagMs: wire.AverageLag(&b.Counts), MaxLagMs: wire.MaxLag(&b.Counts),
			PushPerSecond: q.PerSecond(b.At, b.PushMessages), PopPerSecond: q.PerSecond(b.At, b.PopMessages), AckPerSecond: q.PerSecond(b.At, b.Acked()),
			EmptyPerSecond: q.PerSecond(b.At, b.PopEmpty), ParkedCount: waiting[at], Percentiles: wire.Percentiles(percentile[at]),
			DLQCount: b.DeadLetters, AckRetried: b.AckRetried, AckRefused: b.AckRefused, BucketBacklog: q.Backlog(backlog, at),
		}
	})
	slices.Sort(listed)
	return api.QueueOps{HistorySpan: q.Span(), Series: series, Queues: slices.Compact(listed)}, err
}

// Retention serves GET /api/v1/analytics/retention. It lists the buckets in which sweeps deleted messages.
func (h *Handlers) Retention(p *wire.Params) (any, error) {
	q, err := wire.ReadHistoryQuery(p, wire.DefaultSpan)
	if err != nil {
		return nil, err
	}
	found, err := h.History.Sums(p.Ctx(), q.Range, q.Filter)
	found = slices.DeleteFunc(found, func(b history.Bucket) bool { return b.Removals == 0 })
	var all history.Bucket
	series := wire.Each(found, func(b *history.Bucket) api.RetentionBucket {
		all.Add(&b.Counts)
		all.Removals += b.Removals
		return api.RetentionBucket{Bucket: wire.BucketTime(b.At), Removed: removed(b)}
	})
	return api.Retention{HistorySpan: q.Span(), Series: series, Totals: removed(&all)}, err
}

func removed(b *history.Bucket) api.Removed {
	return api.Removed{
		RetentionMsgs: b.RemovedRetention, CompletedRetentionMsgs: b.RemovedCompleted, EvictionMsgs: b.RemovedEvicted,
		TotalMsgs: b.RemovedRetention + b.RemovedCompleted + b.RemovedEvicted, EventCount: b.Removals,
	}
}

// LiveQueues reads the queues that the filters select. With live=false it returns no queues.
func (h *Handlers) LiveQueues(p *wire.Params, q *wire.HistoryQuery) ([]stats.Queue, error) {
	if p.QueryParam("live") == "false" {
		return nil, nil
	}
	filter := stats.QueueFilter{Allowed: q.Allowed}
	if q.Namespace != nil {
		filter.Namespace = *q.Namespace
	}
	if q.Task != nil {
		filter.Task = *q.Task
	}
	queues, err := h.Live.Queues(p.Ctx(), filter)
	return slices.DeleteFunc(queues, func(one stats.Queue) bool { return q.Queue != nil && *q.Queue != one.Name }), err
}
