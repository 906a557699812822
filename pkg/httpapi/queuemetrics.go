package httpapi

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/config/setting"
	"github.com/belfry-mq/belfry/pkg/access/identity"
	"github.com/belfry-mq/belfry/pkg/insight/history"
	"github.com/belfry-mq/belfry/pkg/insight/stats"
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

// queueMetrics has the figures of queues and groups. Only a scrape reads them, at most once in queueMetricsAge.
type queueMetrics struct {
	mu     sync.Mutex
	at     time.Time
	next   time.Time // the earliest instant of the next read
	latest []prometheus.Metric
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
		if read, err := s.readQueueFigures(ctx); err == nil {
			q.at, q.latest = time.Now(), read
			q.next = q.at.Add(queueMetricsAge)
		} else {
			q.next = time.Now().Add(queueMetricsRetry)
			s.start.Log.Warn("the metrics of queues could not be read", zap.Error(err))
		}
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(constants(countersOf(s.start.Metrics.counts.Totals())))
	if !q.at.IsZero() {
		age := prometheus.MustNewConstMetric(descRead, prometheus.GaugeValue, time.Since(q.at).Seconds())
		reg.MustRegister(constants(append(slices.Clone(q.latest), age)))
	}
	return reg
}

func (s *Server) readQueueFigures(ctx context.Context) ([]prometheus.Metric, error) {
	queues, err := s.deps.Resources.Queues(ctx, stats.QueueFilter{})
	if err != nil {
		return nil, err
	}
	groups, err := s.deps.GroupReader.List(ctx, nil)
	if err != nil {
		return nil, err
	}
	return figuresOf(queues, groups, s.deps.MaxQueueMetrics), nil
}

// figuresOf returns the metrics of limit queues, which have the most pending messages, and of their groups with the most lag.
// It adds the sums of the other queues and groups.
func figuresOf(queues []stats.Queue, groups []stats.Group, limit int) []prometheus.Metric {
	slices.SortFunc(queues, func(a, b stats.Queue) int {
		return cmp.Or(cmp.Compare(b.Counts.Pending, a.Counts.Pending), cmp.Compare(a.Name, b.Name))
	})
	var metrics []prometheus.Metric
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		metrics = append(metrics, prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...))
	}
	shown := map[string]bool{}
	show := func(name string, q *stats.Queue) {
		gauge(descMessages, float64(q.Counts.Total), name)
		gauge(descPending, float64(q.Counts.Pending), name)
		gauge(descDead, float64(q.Counts.DeadLetter), name)
		gauge(descPartitions, float64(q.Partitions), name)
	}
	var rest stats.Queue
	for i := range queues {
		q := &queues[i]
		if i < limit && q.Name != otherQueues { // a queue with the name of the sum is a part of the sum
			shown[q.Name] = true
			show(q.Name, q)
			continue
		}
		rest.Partitions += q.Partitions
		rest.Counts.Total, rest.Counts.Pending, rest.Counts.DeadLetter = rest.Counts.Total+q.Counts.Total, rest.Counts.Pending+q.Counts.Pending, rest.Counts.DeadLetter+q.Counts.DeadLetter
	}
	slices.SortFunc(groups, func(a, b stats.Group) int {
		return cmp.Or(cmp.Compare(b.Lag, a.Lag), cmp.Compare(b.Oldest, a.Oldest), cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Name, b.Name))
	})
	type sum struct{ lag, oldest float64 }
	others, left := map[string]sum{}, groupsPerQueue*limit
	for i := range groups {
		g, queueName := &groups[i], otherQueues
		if shown[g.Queue] {
			if queueName = g.Queue; left > 0 && g.Name != otherQueues {
				left--
				gauge(descLag, float64(g.Lag), g.Queue, g.Name)
				gauge(descAge, g.Oldest.Seconds(), g.Queue, g.Name)
				continue
			}
		}
		others[queueName] = sum{others[queueName].lag + float64(g.Lag), max(others[queueName].oldest, g.Oldest.Seconds())}
	}
	if len(shown) < len(queues) {
		show(otherQueues, &rest)
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
