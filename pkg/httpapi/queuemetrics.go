package httpapi

import (
	"context"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/config/setting"
	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/insight/history"
	"github.com/belfry-mq/belfry/pkg/insight/totals"
)

const (
	// queueMetricsAge is how long the server serves figures of queues before a scrape reads them again.
	queueMetricsAge = 10 * time.Second
	// queueMetricsTimeout limits one read. After a timeout, the server serves the figures of the previous read.
	queueMetricsTimeout = 5 * time.Second
	// queueMetricsRetry is the minimum time between a failed read and the next read.
	queueMetricsRetry = time.Second
	// otherQueues is the label of the sum of all queues, or groups, that have no metrics of their own.
	otherQueues = history.Other
	// groupsPerQueue times metrics.max_queues is the number of groups that have metrics of their own.
	groupsPerQueue = 10
	// maxQueueMetrics is the largest metrics.max_queues.
	maxQueueMetrics = 10_000
)

// MetricsConfig is the section "metrics" of the configuration.
type MetricsConfig struct {
	// MaxQueues is the number of queues that have metrics of their own. groupsPerQueue times as many groups have them too. The
	// other queues and groups are summed. 0 means that there are no metrics of queues and groups.
	MaxQueues int `mapstructure:"max_queues"`
}

// DefaultMetricsConfig returns the values of config/belfry.yaml.
func DefaultMetricsConfig() MetricsConfig { return MetricsConfig{MaxQueues: 100} }

// Validate returns an error for an invalid value.
func (c MetricsConfig) Validate() error {
	return setting.Check(c.MaxQueues >= 0 && c.MaxQueues <= maxQueueMetrics,
		"metrics.max_queues is %d: it must be from 0 to %d", c.MaxQueues, maxQueueMetrics)
}

var (
	queueLabels = []string{"queue"}
	groupLabels = []string{"queue", "group"}

	descMessages   = prometheus.NewDesc("belfry_queue_messages", "Stored messages of a queue.", queueLabels, nil)
	descPending    = prometheus.NewDesc("belfry_queue_pending_messages", "Messages of a queue that at least one group has not consumed.", queueLabels, nil)
	descDead       = prometheus.NewDesc("belfry_queue_dead_letters", "Dead letters of a queue.", queueLabels, nil)
	descPartitions = prometheus.NewDesc("belfry_queue_partitions", "Partitions of a queue.", queueLabels, nil)
	descLag        = prometheus.NewDesc("belfry_group_lag_messages", "Messages that a group has not consumed.", groupLabels, nil)
	descAge        = prometheus.NewDesc("belfry_group_lag_seconds", "Age of the oldest message that a group has not consumed.", groupLabels, nil)
	descRead       = prometheus.NewDesc("belfry_queue_metrics_age_seconds", "Time since the figures of queues and groups were read.", nil, nil)
)

// queueMetrics keeps the last totals, for scrapes while the database does not answer. Without a scrape nothing is read.
type queueMetrics struct {
	mu     sync.Mutex
	next   time.Time // nothing is read before
	latest *totals.Snapshot
}

// seesAllQueues reports whether the sender may see the names of all queues. The server must require no
// authentication, or the principal must have a role and no grants.
func (s *Server) seesAllQueues(c echo.Context) bool {
	if s.deps.Auth == nil && s.cfg.TLSClientCAFile == "" {
		return true
	}
	p, err := principal(c, s.deps.Auth)
	return err == nil && p.Role >= identity.ReadOnly && p.Grants == nil
}

// queueFigures returns the figures as metrics. If it cannot read them, it logs the error and returns the previous figures.
func (s *Server) queueFigures(ctx context.Context) prometheus.Gatherer {
	q := &s.queues
	q.mu.Lock()
	defer q.mu.Unlock()
	if !time.Now().Before(q.next) {
		ctx, cancel := context.WithTimeout(ctx, queueMetricsTimeout)
		defer cancel()
		if read, err := s.deps.Totals.Fresh(ctx, queueMetricsAge); err == nil {
			q.latest = read
		} else {
			q.next = time.Now().Add(queueMetricsRetry)
			s.start.Log.Warn("the metrics of queues could not be read", zap.Error(err))
		}
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(constants(countersOf(s.start.Metrics.counts.Totals())))
	if q.latest != nil {
		age := prometheus.MustNewConstMetric(descRead, prometheus.GaugeValue, q.latest.Since().Seconds())
		reg.MustRegister(constants(append(figuresOf(q.latest, s.deps.MaxQueueMetrics), age)))
	}
	return reg
}

// figuresOf returns the metrics of the queues with the most pending messages and of their groups with the most lag, and
// the sums of the others.
func figuresOf(s *totals.Snapshot, limit int) []prometheus.Metric {
	var metrics []prometheus.Metric
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		metrics = append(metrics, prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...))
	}
	shown := map[string]bool{}
	show := func(name string, partitions, letters int64, m *totals.Counts) {
		gauge(descMessages, float64(m.Total), name)
		gauge(descPending, float64(m.Pending), name)
		gauge(descDead, float64(letters), name)
		gauge(descPartitions, float64(partitions), name)
	}
	queues, _ := s.ListQueues(func(q *totals.Queue) bool { return q.Name != otherQueues }, totals.ByPending, nil, limit) // a queue may have that name
	for _, q := range queues {
		shown[q.Name] = true
		show(q.Name, q.Partitions, q.DeadLetters, &q.Messages)
	}
	type sum struct{ lag, oldest float64 }
	others, left := map[string]sum{}, groupsPerQueue*limit
	groups, _ := s.ListGroups(func(*totals.Group) bool { return true }, totals.ByBacklog, nil, len(s.Groups))
	for _, g := range groups {
		queueName, age := otherQueues, s.Age(g.Oldest).Seconds()
		if shown[g.Queue] {
			if queueName = g.Queue; left > 0 && g.Name != otherQueues {
				left--
				gauge(descLag, float64(g.Lag), g.Queue, g.Name)
				gauge(descAge, age, g.Queue, g.Name)
				continue
			}
		}
		others[queueName] = sum{others[queueName].lag + float64(g.Lag), max(others[queueName].oldest, age)}
	}
	if len(shown) < len(s.Queues) {
		rest := s.Sum(func(q *totals.Queue) bool { return !shown[q.Name] })
		show(otherQueues, rest.Partitions, rest.DeadLetters, &rest.Messages)
		sumOfRest := others[otherQueues]
		others[otherQueues] = sumOfRest // the sum exists even without groups
	}
	for name, sums := range others {
		gauge(descLag, sums.lag, name, otherQueues)
		gauge(descAge, sums.oldest, name, otherQueues)
	}
	return metrics
}

// constants is a collector that returns fixed metrics.
type constants []prometheus.Metric

// Describe implements prometheus.Collector. It sends nothing, so the registry does not check the metrics against descriptions.
func (constants) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c constants) Collect(into chan<- prometheus.Metric) {
	for _, m := range c {
		into <- m
	}
}

// queueCounters has the counters that each queue has since the start of this process.
var queueCounters = []struct {
	desc  *prometheus.Desc
	value func(c *history.Counts) int64
}{
	{queueCounter("push_messages", "Messages of a queue that this process stored."), func(c *history.Counts) int64 { return c.PushMessages }},
	{queueCounter("pop_messages", "Messages of a queue that this process delivered."), func(c *history.Counts) int64 { return c.PopMessages }},
	{queueCounter("pop_empty", "Pops of a queue that this process answered without a message."), func(c *history.Counts) int64 { return c.PopEmpty }},
	{queueCounter("acks", "Messages of a queue that consumers completed."), func(c *history.Counts) int64 { return c.AckSuccess }},
	{queueCounter("acks_failed", "Messages of a queue that consumers could not process."), func(c *history.Counts) int64 { return c.AckFailed }},
	{queueCounter("acks_retried", "Messages of a queue that consumers gave back."), func(c *history.Counts) int64 { return c.AckRetried }},
	{queueCounter("acks_refused", "Acknowledgments for a queue that this process refused."), func(c *history.Counts) int64 { return c.AckRefused }},
	{queueCounter("dead_lettered", "Acknowledgments for a queue that made a dead letter."), func(c *history.Counts) int64 { return c.DeadLetters }},
	{queueCounter("transactions", "Transactions with an operation of a queue that this process applied."), func(c *history.Counts) int64 { return c.Transactions }},
}

func queueCounter(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("belfry_queue_"+name+"_total", help, queueLabels, nil)
}

// countersOf returns the counters in totals, which has the counts of each queue.
func countersOf(totals map[string]history.Counts) []prometheus.Metric {
	var metrics []prometheus.Metric
	for name, counts := range totals {
		for _, counter := range queueCounters {
			metrics = append(metrics, prometheus.MustNewConstMetric(counter.desc, prometheus.CounterValue, float64(counter.value(&counts)), name))
		}
	}
	return metrics
}
