package httpapi

import (
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/httpapi/data"
	"github.com/belfry-mq/belfry/pkg/httpapi/queen"
	"github.com/belfry-mq/belfry/pkg/httpapi/wire"
	"github.com/belfry-mq/belfry/pkg/insight/history"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// The values of the label result.
const (
	ackSucceeded    = "success"
	ackFailed       = "failed"
	ackRetried      = "retried"
	ackDeadLettered = "dead_lettered"
	ackBlocked      = "blocked"
	ackSkipped      = "skipped"
	ackRefused      = "refused"
)

// statusClientLeft is the status, in metrics only, of a request whose client disconnected or
// stopped reading before the whole answer was written.
const statusClientLeft = 499

// Metrics are the metrics of the API.
type Metrics struct {
	reg    *prometheus.Registry
	counts *history.Recorder
	// sent has the messages that streams have sent and that no consumer has acknowledged.
	sent *data.InFlight

	requests *prometheus.HistogramVec
	errors   *prometheus.CounterVec
	delivery prometheus.Histogram
	pushed   prometheus.Counter
	popped   prometheus.Counter
	acked    *prometheus.CounterVec
	refused  prometheus.Counter
	// ingested and processed are the rates that Throughput returns. answered is the rate of all requests.
	ingested, processed, answered rate
	// answers counts the answered requests. messages counts the stored and the delivered messages.
	answers, messages atomic.Int64
	began             time.Time
}

// NewMetrics registers the metrics with reg, which GET /metrics/prometheus serves. The methods of Metrics also count in counts.
func NewMetrics(reg *prometheus.Registry, counts *history.Recorder) *Metrics {
	m := &Metrics{
		reg: reg, counts: counts, sent: &data.InFlight{}, began: time.Now(),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "belfry_http_request_duration_seconds", Help: "Duration of a request by route and status, including the wait of a long poll.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5, 30},
		}, []string{"route", "status"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "belfry_errors_total", Help: "Requests that failed, by error code.",
		}, []string{"code"}),
		delivery: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "belfry_commit_to_delivery_seconds",
			Help:    "Time from the commit of a message to its first delivery.",
			Buckets: []float64{.0005, .001, .002, .005, .01, .025, .05, .1, .25, .5, 1, 5, 30, 300},
		}),
		pushed: prometheus.NewCounter(prometheus.CounterOpts{Name: "belfry_push_messages_total", Help: "Messages stored."}),
		popped: prometheus.NewCounter(prometheus.CounterOpts{Name: "belfry_pop_messages_total", Help: "Messages delivered."}),
		acked: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "belfry_ack_messages_total", Help: "Acknowledgments, by result.",
		}, []string{"result"}),
	}
	m.refused = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "belfry_http_connections_refused_total", Help: "Connections above http.max_connections.",
	})
	// Each counter exists from the start. Otherwise increase() would not see its first count.
	for _, result := range []string{ackSucceeded, ackFailed, ackRetried, ackDeadLettered, ackBlocked, ackSkipped, ackRefused} {
		m.acked.WithLabelValues(result)
	}
	for _, code := range []queue.Code{queue.CodeUnavailable, queue.CodeOverloaded, queue.CodeUndeliverable, queue.CodeInternal} {
		m.errors.WithLabelValues(string(code))
	}
	reg.MustRegister(m.requests, m.errors, m.delivery, m.pushed, m.popped, m.acked, m.refused)
	return m
}

// Pushed counts the messages of a push.
func (m *Metrics) Pushed(items []queue.PushItem, results []queue.PushResult) {
	m.counts.Pushed(items, results)
	m.pushed.Add(float64(len(results)))
	m.messages.Add(int64(len(results)))
	m.ingested.add(time.Now(), len(results))
}

// Transacted counts the operations of an applied transaction. Its pushes are not part of the ingested rate.
func (m *Metrics) Transacted(tx *queue.Transaction, result *queue.TransactionResult) {
	m.counts.Transacted(tx, result)
	m.sent.Transacted(tx, result)
	pushed := 0
	var items []queue.AckItem
	var acked []queue.AckResult
	for i := range result.Operations {
		switch op := &result.Operations[i]; {
		case op.Ack != nil:
			items, acked = append(items, *tx.Operations[i].Ack), append(acked, *op.Ack)
		case !op.Push.Duplicate:
			pushed++
		}
	}
	m.pushed.Add(float64(pushed))
	m.messages.Add(int64(pushed))
	m.acknowledged(items, acked)
}

// Empty counts a pop that is answered without a message.
func (m *Metrics) Empty(req *queue.PopRequest) { m.counts.Empty(req) }

// Delivered counts a delivery. Call it right after the answer was written. It measures
// the age of a message in two parts, because two clocks differ. The clock of the database
// measures the time from the commit to the claim. The local clock measures the time from
// the arrival of the claim to the call of Delivered.
func (m *Metrics) Delivered(d *queue.Delivery) {
	m.counts.Delivered(d)
	m.popped.Add(float64(len(d.Messages)))
	m.messages.Add(int64(len(d.Messages)))
	if d.LeaseID.IsZero() { // autoAck: no acknowledgment follows
		m.processed.add(time.Now(), len(d.Messages))
	}
	sinceClaim := time.Since(d.ReceivedAt)
	for i := range d.Messages {
		if d.Messages[i].Attempt <= 1 {
			m.delivery.Observe((d.DatabaseNow.Sub(d.Messages[i].CreatedAt) + sinceClaim).Seconds())
		}
	}
}

// Acknowledged counts acknowledgments by their result.
func (m *Metrics) Acknowledged(items []queue.AckItem, results []queue.AckResult) {
	m.counts.Acknowledged(items, results)
	m.sent.Acknowledged(items, results)
	m.acknowledged(items, results)
}

func (m *Metrics) acknowledged(items []queue.AckItem, results []queue.AckResult) {
	done := 0
	for i := range results {
		if results[i].Success {
			done++
		}
		m.acked.WithLabelValues(resultOf(&items[i], &results[i])).Inc()
	}
	m.processed.add(time.Now(), done)
}

// resultOf returns the label of an acknowledgment. A failed message without a retry left has only the label of what happened to it.
func resultOf(item *queue.AckItem, result *queue.AckResult) string {
	switch {
	case result.DeadLettered:
		return ackDeadLettered
	case !result.Success:
		return ackRefused
	case result.Exhausted == queue.ExhaustedBlocked:
		return ackBlocked
	case result.Exhausted == queue.ExhaustedSkipped:
		return ackSkipped
	case item.Status == queue.AckFailed:
		return ackFailed
	case item.Status == queue.AckRetry:
		return ackRetried
	}
	return ackSucceeded
}

// connectionRefused counts a connection above http.max_connections.
func (m *Metrics) connectionRefused() { m.refused.Inc() }

// certificateExpires adds a metric with the expiry of the certificate of the server.
func (m *Metrics) certificateExpires(at func() time.Time) {
	m.reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "belfry_tls_certificate_expires_seconds", Help: "When the TLS certificate expires, in seconds since 1970.",
	}, func() float64 { return float64(at().Unix()) }))
}

// process returns the figures of GET /metrics.
func (m *Metrics) process() queen.Process {
	now := time.Now()
	ingested, processed := m.Throughput()
	return queen.Process{
		Uptime: now.Sub(m.began), Requests: m.answers.Load(), RequestRate: m.answered.perSecond(now), Messages: m.messages.Load(), MessageRate: ingested + processed,
	}
}

// Throughput returns the messages per second in the last minute. ingested is the rate of
// pushes, and processed is the rate at which groups consumed messages.
func (m *Metrics) Throughput() (ingested, processed float64) {
	now := time.Now()
	return m.ingested.perSecond(now), m.processed.perSecond(now)
}

// measure measures the duration of each request by route.
func (s *Server) measure(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		started := time.Now()
		s.observe(c, started, next(c))
		return nil
	}
}

// observe answers the error of a handler, and counts the request. It is a separate function so that its
// large stack frame does not exist while a request waits.
func (s *Server) observe(c echo.Context, started time.Time, err error) {
	begun := c.Response().Committed
	if err != nil {
		c.Error(err)
	}
	status := c.Response().Status
	if err != nil && (begun || !c.Response().Committed) {
		status = statusClientLeft
		s.start.Log.Debug("a client disconnected before it received its answer", fieldsOf(c), zap.Duration("after", time.Since(started)), zap.Error(err))
	}
	if s.cfg.AccessLog {
		s.start.Log.Debug("a request was answered", fieldsOf(c), zap.Int("status", status), zap.Int64("bytes", c.Response().Size),
			zap.Duration("after", time.Since(started)), zap.String("client", c.RealIP()))
	}
	route := c.Path()
	if route == "" {
		route = "none"
	}
	s.start.Metrics.answers.Add(1)
	s.start.Metrics.answered.add(time.Now(), 1)
	s.start.Metrics.requests.WithLabelValues(route, strconv.Itoa(status)).Observe(time.Since(started).Seconds())
}

// prometheus serves GET /metrics/prometheus. It reads some metrics from the database. Only a sender that may see
// all queues gets metrics with the names of queues and groups. The answer counts for http.max_inflight_bytes. It is
// sent even if no memory is left, because an operator needs the metrics then.
func (s *Server) prometheus(c echo.Context) error {
	wire.CountReads(c)
	release, err := s.statistics.Acquire(c.Request().Context())
	if err != nil {
		return err
	}
	gather := sync.OnceValues(s.start.Metrics.reg.Gather)
	_, _ = gather() // HandlerFor reads the result
	all := prometheus.Gatherers{prometheus.GathererFunc(gather)}
	if s.deps.MaxQueueMetrics > 0 && s.seesAllQueues(c) {
		all = append(all, s.queueFigures(c.Request().Context()))
	}
	release()
	c.Response().Header().Set("Cache-Control", "no-cache")
	promhttp.HandlerFor(all, promhttp.HandlerOpts{}).ServeHTTP(wire.Covered(c), c.Request())
	return nil
}

// rateSpan is the number of seconds that a rate covers.
const rateSpan = 60

// rate counts the events of the last minute, with one slot for each second. The zero
// value is ready to use. It is safe for concurrent use.
type rate struct {
	mu    sync.Mutex
	slots [rateSpan]struct{ second, n int64 }
}

// add counts n events at the instant now.
func (r *rate) add(now time.Time, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	second := now.Unix()
	slot := &r.slots[second%rateSpan]
	if slot.second != second {
		slot.second, slot.n = second, 0
	}
	slot.n += int64(n)
}

// perSecond returns the mean rate of the last minute, rounded to two decimals. The time
// before the start of the server counts as time without events.
func (r *rate) perSecond(now time.Time) float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	var n int64
	for _, slot := range r.slots {
		if age := now.Unix() - slot.second; age >= 0 && age < rateSpan {
			n += slot.n
		}
	}
	return math.Round(100*float64(n)/rateSpan) / 100
}
