package observe

import (
	"cmp"
	"slices"
	"time"

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
	all := SumOf(sums)
	return append(q.Head(),
		"pointCount", len(points), "timeSeries", points,
		"workers", wire.Each(processes, worker), "queues", queueLags(found, percentile),
		"summary", wire.Fields{
			"totalPushMessages", all.PushMessages, "totalPopMessages", all.PopMessages, "totalAckMessages", all.AckSuccess + all.AckFailed,
			"totalPushRequests", all.PushRequests, "totalPopRequests", all.PopRequests, "totalAckRequests", all.AckRequests,
			"totalDbErrors", dbErrors, "totalAckFailed", all.AckFailed, "totalDlq", all.DeadLetters, "pendingMessages", pending,
		},
	), err
}

// queueBuckets returns what happened to queues, and their lags: of each bucket, or of all together.
func (h *Handlers) queueBuckets(p *wire.Params, q *wire.HistoryQuery, each bool) ([]history.Bucket, map[history.At]history.Percentiles, error) {
	found, err := h.History.Queues(p.Ctx(), q.Range, q.Filter)
	if err != nil {
		return nil, nil, err
	}
	percentile, err := h.History.Percentiles(p.Ctx(), q.Range, q.Filter, each)
	return found, percentile, err
}

func worker(one *Process) wire.Fields {
	last := one.Last()
	return wire.Fields{
		"hostname", one.Hostname, "workerId", one.PID, "avgEventLoopLagMs", 0, "maxEventLoopLagMs", 0, "freeSlots", 0,
		"dbConnections", int64(last.PoolSize[3]), "jobQueueSize", 0, "backoffSize", 0, "messagesProcessed", one.Popped, "lastSeen", last.LastAt,
	}
}

// workerPoints are the points of all buckets, the newest first, and the errors of all.
func workerPoints(q *wire.HistoryQuery, found []history.Bucket, processes []Process) (points []wire.Fields, dbErrors int64) {
	points = Points(q, found, processes, func(at time.Time, c *history.Counts, t *Totals) wire.Fields {
		dbErrors += t.DBErrors
		acked := c.AckSuccess + c.AckFailed
		return wire.Fields{
			"timestamp", wire.BucketTime(at), "pushMessages", c.PushMessages, "popMessages", c.PopMessages, "ackMessages", acked,
			"pushRequests", c.PushRequests, "popRequests", c.PopRequests, "ackRequests", c.AckRequests,
			"jobsDone", c.PushRequests + c.PopRequests + c.AckRequests + c.Transactions,
			"pushPerSecond", q.PerSecond(c.PushMessages), "popPerSecond", q.PerSecond(c.PopMessages), "ackPerSecond", q.PerSecond(acked),
			"avgEventLoopLagMs", 0, "maxEventLoopLagMs", 0, "avgFreeSlots", 0, "minFreeSlots", 0, "dbConnections", int64(t.PoolSize),
			"avgJobQueueSize", 0, "maxJobQueueSize", 0, "backoffSize", 0,
			"avgLagMs", wire.AverageLag(c), "maxLagMs", wire.MaxLag(c), "lagCount", c.LagCount,
			"dbErrors", t.DBErrors, "ackSuccess", c.AckSuccess, "ackFailed", c.AckFailed, "dlqCount", c.DeadLetters,
		}
	})
	return points, dbErrors
}

// queueLags are the lags of each queue over all buckets, the queue with the most messages first.
func queueLags(found []history.Bucket, percentile map[history.At]history.Percentiles) []wire.Fields {
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
	return wire.Each(names, func(name *string) wire.Fields {
		c := sums[*name]
		return append(wire.Fields{"queueName", *name, "pushCount", c.PushMessages, "popCount", c.PopMessages, "avgLagMs", wire.AverageLag(c), "maxLagMs", wire.MaxLag(c)},
			wire.Percentiles(percentile[history.At{Queue: *name}])...)
	})
}

// QueueLag serves GET /api/v1/analytics/queue-lag: the buckets in which a queue delivered messages.
func (h *Handlers) QueueLag(p *wire.Params) (any, error) {
	q, err := wire.ReadHistoryQuery(p, wire.DefaultSpan)
	if err != nil {
		return nil, err
	}
	found, percentile, err := h.queueBuckets(p, &q, true)
	found = slices.DeleteFunc(found, func(b history.Bucket) bool { return b.PopMessages == 0 })
	return wire.Each(found, func(b *history.Bucket) wire.Fields {
		return append(wire.Fields{
			"queueName", b.Queue, "popCount", b.PopMessages, "avgLagMs", wire.AverageLag(&b.Counts), "maxLagMs", wire.MaxLag(&b.Counts), "bucketTime", wire.BucketTime(b.At),
		}, wire.Percentiles(percentile[history.At{Unix: b.At.Unix(), Queue: b.Queue}])...)
	}), err
}

// QueueOps serves GET /api/v1/analytics/queue-ops: the buckets in which something happened to a queue, or in
// which requests waited for it.
func (h *Handlers) QueueOps(p *wire.Params) (any, error) {
	q, err := wire.ReadHistoryQuery(p, wire.DefaultSpan)
	if err != nil {
		return nil, err
	}
	if p.QueryParam("live") == "false" && (q.Namespace != nil || q.Task != nil) {
		return nil, queue.Invalidf("live is false: leave out namespace and task, or live")
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
	found, waiting := withParked(found, parked)
	names := []string{}
	series := wire.Each(found, func(b *history.Bucket) wire.Fields {
		names = append(names, b.Queue)
		at := history.At{Unix: b.At.Unix(), Queue: b.Queue}
		acked := b.AckSuccess + b.AckFailed
		return append(wire.Fields{
			"bucket", wire.BucketTime(b.At), "queueName", b.Queue, "pushRequests", b.PushRequests, "pushMessages", b.PushMessages,
			"popMessages", b.PopMessages, "popEmpty", b.PopEmpty, "ackRequests", b.AckRequests, "ackSuccess", b.AckSuccess, "ackFailed", b.AckFailed,
			"transactions", b.Transactions, "partitionsCreated", b.PartitionsCreated, "partitionsDeleted", b.PartitionsDeleted,
			"partitionCount", partitions[b.Queue], "avgLagMs", wire.AverageLag(&b.Counts), "maxLagMs", wire.MaxLag(&b.Counts),
			"pushPerSecond", q.PerSecond(b.PushMessages), "popPerSecond", q.PerSecond(b.PopMessages), "ackPerSecond", q.PerSecond(acked),
			"emptyPerSecond", q.PerSecond(b.PopEmpty), "parkedCount", waiting[at],
		}, wire.Percentiles(percentile[at])...)
	})
	slices.Sort(names)
	return append(q.Head(), "series", series, "queues", slices.Compact(names)), err
}

// withParked adds a bucket for each queue that requests waited for. It returns how many waited.
func withParked(found []history.Bucket, parked []history.Parked) ([]history.Bucket, map[history.At]int64) {
	waiting, known := map[history.At]int64{}, map[history.At]bool{}
	for i := range found {
		known[history.At{Unix: found[i].At.Unix(), Queue: found[i].Queue}] = true
	}
	for i := range parked {
		at := history.At{Unix: parked[i].At.Unix(), Queue: parked[i].Queue}
		waiting[at] += parked[i].Count
		if !known[at] {
			known[at] = true
			found = append(found, history.Bucket{At: parked[i].At, Queue: parked[i].Queue})
		}
	}
	slices.SortStableFunc(found, func(a, b history.Bucket) int {
		return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.Queue, b.Queue))
	})
	return found, waiting
}

// Retention serves GET /api/v1/analytics/retention: the buckets in which sweeps deleted messages.
func (h *Handlers) Retention(p *wire.Params) (any, error) {
	q, err := wire.ReadHistoryQuery(p, wire.DefaultSpan)
	if err != nil {
		return nil, err
	}
	found, err := h.History.Sums(p.Ctx(), q.Range, q.Filter)
	found = slices.DeleteFunc(found, func(b history.Bucket) bool { return b.Removals == 0 })
	var all history.Bucket
	series := wire.Each(found, func(b *history.Bucket) wire.Fields {
		all.Add(&b.Counts)
		all.Removals += b.Removals
		return append(wire.Fields{"bucket", wire.BucketTime(b.At)}, removed(b)...)
	})
	return append(q.Head(), "series", series, "totals", removed(&all)), err
}

func removed(b *history.Bucket) wire.Fields {
	return wire.Fields{
		"retentionMsgs", b.RemovedRetention, "completedRetentionMsgs", b.RemovedCompleted, "evictionMsgs", b.RemovedEvicted,
		"totalMsgs", b.RemovedRetention + b.RemovedCompleted + b.RemovedEvicted, "eventCount", b.Removals,
	}
}

// SumOf returns the counts of all buckets together.
func SumOf(found []history.Bucket) (all history.Counts) {
	for i := range found {
		all.Add(&found[i].Counts)
	}
	return all
}

// LiveQueues returns the queues that the filters select. With live=false it reads none.
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
