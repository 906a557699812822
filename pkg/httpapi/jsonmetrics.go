package httpapi

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/insight/history"
)

// jsonMetrics serves GET /metrics: some figures of this process since its start. It asks no database.
func (s *Server) jsonMetrics(*wire.Params) (any, error) {
	m, now := s.start.Metrics, time.Now()
	ingested, processed := m.Throughput()
	size, idle, _ := s.deps.Pool()
	resident, heap := history.Memory()
	user, system := history.CPUTimes()
	return wire.Fields{
		"uptime", now.Sub(m.began),
		"requests", wire.Fields{"total", m.answers.Load(), "rate", m.answered.perSecond(now)},
		"messages", wire.Fields{"total", m.messages.Load(), "rate", ingested + processed},
		"database", wire.Fields{"poolSize", size, "idleConnections", idle, "waitingRequests", 0},
		"memory", wire.Fields{"rss", resident, "heapTotal", heap, "heapUsed", heap, "external", 0, "arrayBuffers", 0},
		"cpu", wire.Fields{"user", user.Microseconds(), "system", system.Microseconds()},
	}, nil
}

// queueCounters are the counters of each queue since the start of this process.
var queueCounters = []struct {
	desc  *prometheus.Desc
	value func(c *history.Counts) int64
}{
	{queueCounter("push_messages", "Messages of a queue that this process stored."), func(c *history.Counts) int64 { return c.PushMessages }},
	{queueCounter("pop_messages", "Messages of a queue that this process delivered."), func(c *history.Counts) int64 { return c.PopMessages }},
	{queueCounter("pop_empty", "Pops of a queue that this process answered without a message."), func(c *history.Counts) int64 { return c.PopEmpty }},
	{queueCounter("acks", "Acknowledgments for a queue that this process applied."), func(c *history.Counts) int64 { return c.AckSuccess }},
	{queueCounter("acks_failed", "Acknowledgments for a queue that this process refused."), func(c *history.Counts) int64 { return c.AckFailed }},
	{queueCounter("dead_lettered", "Acknowledgments for a queue that made a dead letter."), func(c *history.Counts) int64 { return c.DeadLetters }},
	{queueCounter("transactions", "Transactions with an operation of a queue that this process applied."), func(c *history.Counts) int64 { return c.Transactions }},
}

func queueCounter(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("belfry_queue_"+name+"_total", help, queueLabels, nil)
}

// countersOf returns the counters of the queues.
func countersOf(totals map[string]history.Counts) []prometheus.Metric {
	var metrics []prometheus.Metric
	for name, counts := range totals {
		for _, counter := range queueCounters {
			metrics = append(metrics, prometheus.MustNewConstMetric(counter.desc, prometheus.CounterValue, float64(counter.value(&counts)), name))
		}
	}
	return metrics
}
