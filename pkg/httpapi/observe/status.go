package observe

import (
	"slices"
	"time"

	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/insight/history"
	"github.com/belfry-mq/belfry/pkg/insight/stats"
)

// Status serves GET /api/v1/status.
func (h *Handlers) Status(p *wire.Params) (any, error) {
	q, err := ReadQuery(p, DefaultSpan)
	if err != nil {
		return nil, err
	}
	found, err := h.History.Sums(p.Ctx(), q.Range, q.Filter)
	if err != nil {
		return nil, err
	}
	processes, err := h.readProcesses(p.Ctx(), &q, nil, nil)
	if err != nil {
		return nil, err
	}
	live, err := h.liveStatus(p, &q)
	if err != nil {
		return nil, err
	}
	all, points := sumOf(found), throughput(&q, found, totalsOf(&q, processes))
	var dbErrors int64
	for i := range processes {
		for j := range processes[i].buckets {
			dbErrors += processes[i].buckets[j].DBErrors
		}
	}
	return append(q.Head(),
		"pointCount", len(points), "throughput", points,
		"queues", live.queues, "messages", live.messages(&all),
		"leases", wire.Fields{"active", live.leases.Leases, "partitionsWithLeases", live.leases.Partitions, "totalBatchSize", live.leases.Messages, "totalAcked", 0},
		"deadLetterQueue", wire.Fields{"totalMessages", live.counts.DeadLetter, "affectedPartitions", 0, "topErrors", empty},
		"workers", wire.Each(processes, func(one *process) wire.Fields {
			return wire.Fields{
				"hostname", one.hostname, "workerId", one.pid, "avgEventLoopLagMs", 0, "maxEventLoopLagMs", 0, "freeSlots", 0,
				"dbConnections", int64(one.last().PoolSize[3]), "jobQueueSize", 0, "messagesProcessed", one.popped,
			}
		}),
		"errors", wire.Fields{"dbErrors", dbErrors, "ackFailed", all.AckFailed, "dlqMessages", all.DeadLetters},
		"statsAge", 0, // the numbers are live
	), nil
}

// throughput are the points of all buckets, the newest first.
func throughput(q *Query, found []history.Bucket, processes map[int64]*totals) []wire.Fields {
	byTime := map[int64]*history.Counts{}
	for i := range found {
		byTime[found[i].At.Unix()] = &found[i].Counts
	}
	points := []wire.Fields{}
	q.buckets(func(at time.Time) {
		c, t := byTime[at.Unix()], processes[at.Unix()]
		if c == nil {
			c = &history.Counts{}
		}
		if t == nil {
			t = &totals{}
		}
		points = append(points, wire.Fields{
			"timestamp", BucketTime(at), "ingested", c.PushMessages, "processed", c.AckSuccess, "popMessages", c.PopMessages,
			"ingestedPerSecond", q.perSecond(c.PushMessages), "processedPerSecond", q.perSecond(c.AckSuccess), "popPerSecond", q.perSecond(c.PopMessages),
			"avgLagMs", averageLag(c), "maxLagMs", maxLag(c), "avgEventLoopLagMs", 0, "maxEventLoopLagMs", 0, "minFreeSlots", 0,
			"dbErrors", t.dbErrors, "ackFailed", c.AckFailed, "dlqCount", c.DeadLetters,
			"queenCpuUserPct", rounded(t.cpuUser), "queenCpuSysPct", rounded(t.cpuSystem), "queenRssMb", rounded(t.rss / (1 << 20)),
			"dbPoolActive", int64(t.poolAcquired), "dbPoolIdle", int64(t.poolIdle), "dbPoolSize", int64(t.poolSize),
		})
	})
	return points
}

func sumOf(found []history.Bucket) (all history.Counts) {
	for i := range found {
		all.Add(&found[i].Counts)
	}
	return all
}

// liveStatus is what a status says of the present.
type liveStatus struct {
	queues []wire.Fields
	counts stats.Counts
	leases stats.Leases
}

// liveQueues returns the queues that the filters select. With live=false it reads none.
func (h *Handlers) liveQueues(p *wire.Params, q *Query) ([]stats.Queue, error) {
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

func (h *Handlers) liveStatus(p *wire.Params, q *Query) (live liveStatus, err error) {
	queues, err := h.liveQueues(p, q)
	if err != nil {
		return live, err
	}
	percentile, err := h.History.Percentiles(p.Ctx(), q.Range, q.Filter, false)
	if err != nil {
		return live, err
	}
	live.queues = []wire.Fields{}
	for i := range queues {
		one := &queues[i]
		live.counts.Total += one.Counts.Total
		live.counts.Pending += one.Counts.Pending
		live.counts.Processing += one.Counts.Processing
		live.counts.Completed += one.Counts.Completed
		live.counts.DeadLetter += one.Counts.DeadLetter
		live.queues = append(live.queues, append(wire.Fields{
			"id", one.ID, "name", one.Name, "namespace", one.Namespace, "task", one.Task, "partitions", one.Partitions, "totalConsumed", one.Counts.Completed,
		}, percentiles(percentile[history.At{Queue: one.Name}])...))
	}
	live.leases, err = h.Live.Leases(p.Ctx(), q.Allowed)
	return live, err
}

// messages counts what is stored, and what was requested in the time of the status.
func (s *liveStatus) messages(all *history.Counts) wire.Fields {
	efficiency := func(messages, requests int64) float64 { return rounded(float64(messages) / float64(max(1, requests))) }
	acked := all.AckSuccess + all.AckFailed
	return wire.Fields{
		"total", s.counts.Total, "pending", s.counts.Pending, "processing", s.counts.Processing, "completed", s.counts.Completed,
		"failed", 0, "deadLetter", s.counts.DeadLetter,
		"requests", wire.Fields{"push", all.PushRequests, "pop", all.PopRequests, "ack", all.AckRequests},
		"batchEfficiency", wire.Fields{
			"push", efficiency(all.PushMessages, all.PushRequests), "pop", efficiency(all.PopMessages, all.PopRequests-all.PopEmpty),
			"ack", efficiency(acked, all.AckRequests),
		},
	}
}
