package queen

import (
	"time"

	"github.com/belfry-mq/belfry/pkg/httpapi/observe"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/insight/history"
	"github.com/belfry-mq/belfry/pkg/insight/stats"
)

// Status serves GET /api/v1/status.
func (h *Handlers) Status(p *wire.Params) (any, error) {
	q, err := wire.ReadHistoryQuery(p, wire.DefaultSpan)
	if err != nil {
		return nil, err
	}
	found, err := h.Observe.History.Sums(p.Ctx(), q.Range, q.Filter)
	if err != nil {
		return nil, err
	}
	processes, err := h.Observe.ReadProcesses(p.Ctx(), &q, nil, nil)
	if err != nil {
		return nil, err
	}
	live, err := h.liveStatus(p, &q)
	if err != nil {
		return nil, err
	}
	all, points := history.Sum(found), throughput(&q, found, processes)
	var dbErrors int64
	for i := range processes {
		for j := range processes[i].Buckets {
			dbErrors += processes[i].Buckets[j].DBErrors
		}
	}
	return append(head(&q),
		"pointCount", len(points), "throughput", points,
		"queues", live.queues, "messages", live.messages(&all),
		"leases", wire.Fields{"active", live.leases.Leases, "partitionsWithLeases", live.leases.Partitions, "totalBatchSize", live.leases.Messages, "totalAcked", 0},
		"deadLetterQueue", wire.Fields{"totalMessages", live.counts.DeadLetter, "affectedPartitions", 0, "topErrors", []any{}},
		"workers", wire.Each(processes, func(one *observe.Process) wire.Fields {
			return wire.Fields{
				"hostname", one.Hostname, "workerId", one.PID, "avgEventLoopLagMs", 0, "maxEventLoopLagMs", 0, "freeSlots", 0,
				"dbConnections", int64(one.Last().PoolSize[3]), "jobQueueSize", 0, "messagesProcessed", one.Popped,
			}
		}),
		"errors", wire.Fields{"dbErrors", dbErrors, "ackFailed", all.AckFailed, "dlqMessages", all.DeadLetters},
		"statsAge", 0, // the statistics are not cached
	), nil
}

// head returns the first members of most answers.
func head(q *wire.HistoryQuery) wire.Fields {
	span := q.Span()
	return wire.Fields{"timeRange", span.TimeRange, "bucketMinutes", span.BucketMinutes}
}

// throughput returns the points of all buckets, the newest first.
func throughput(q *wire.HistoryQuery, found []history.Bucket, processes []observe.Process) []wire.Fields {
	return observe.Points(q, found, processes, func(at time.Time, c *history.Counts, t *observe.Totals) wire.Fields {
		return wire.Fields{
			"timestamp", wire.BucketTime(at), "ingested", c.PushMessages, "processed", c.Acked(), "popMessages", c.PopMessages,
			"ingestedPerSecond", q.PerSecond(at, c.PushMessages), "processedPerSecond", q.PerSecond(at, c.Acked()), "popPerSecond", q.PerSecond(at, c.PopMessages),
			"avgLagMs", wire.AverageLag(c), "maxLagMs", wire.MaxLag(c), "avgEventLoopLagMs", 0, "maxEventLoopLagMs", 0, "minFreeSlots", 0,
			"dbErrors", t.DBErrors, "ackFailed", c.AckFailed, "dlqCount", c.DeadLetters,
			"queenCpuUserPct", wire.Rounded(t.CPUUser), "queenCpuSysPct", wire.Rounded(t.CPUSystem), "queenRssMb", wire.Rounded(t.RSS / (1 << 20)),
			"dbPoolActive", int64(t.PoolAcquired), "dbPoolIdle", int64(t.PoolIdle), "dbPoolSize", int64(t.PoolSize),
		}
	})
}

// liveStatus has the current figures of a status.
type liveStatus struct {
	queues []wire.Fields
	counts stats.Counts
	leases stats.Leases
}

func (h *Handlers) liveStatus(p *wire.Params, q *wire.HistoryQuery) (live liveStatus, err error) {
	queues, err := h.Observe.LiveQueues(p, q)
	if err != nil {
		return live, err
	}
	percentile, err := h.Observe.History.Percentiles(p.Ctx(), q.Range, q.Filter, false)
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
		p := wire.Percentiles(percentile[history.At{Queue: one.Name}])
		live.queues = append(live.queues, wire.Fields{
			"id", one.ID, "name", one.Name, "namespace", one.Namespace, "task", one.Task, "partitions", one.Partitions,
			"totalConsumed", one.Counts.Completed, "p50Ms", p.P50Ms, "p95Ms", p.P95Ms, "p99Ms", p.P99Ms,
		})
	}
	live.leases, err = h.Observe.Live.Leases(p.Ctx(), q.Allowed)
	return live, err
}

// messages returns the counts of stored messages, and of the requests in the period of the status.
func (s *liveStatus) messages(all *history.Counts) wire.Fields {
	efficiency := func(messages, requests int64) float64 {
		return wire.Rounded(float64(messages) / float64(max(1, requests)))
	}
	acked := all.Acked()
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
