package httpapi

import (
	"strconv"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// What can become of an acknowledgment.
const (
	ackSucceeded    = "success"
	ackDeadLettered = "dead_lettered"
	ackRefused      = "refused"
)

// Metrics are what the API measures.
type Metrics struct {
	reg *prometheus.Registry

	requests *prometheus.HistogramVec
	errors   *prometheus.CounterVec
	delivery prometheus.Histogram
	pushed   prometheus.Counter
	popped   prometheus.Counter
	acked    *prometheus.CounterVec
	// ingested and processed are the rates of GET /api/v1/resources/overview.
	ingested, processed rate
}

// NewMetrics registers the metrics with reg, which GET /metrics/prometheus
// shows.
func NewMetrics(reg *prometheus.Registry) *Metrics {
	m := &Metrics{
		reg: reg,
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "belfry_http_request_duration_seconds", Help: "Duration of a request by route and status; a long poll's waiting included.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5, 30},
		}, []string{"route", "status"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "belfry_errors_total", Help: "Requests that failed, by error code.",
		}, []string{"code"}),
		delivery: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "belfry_commit_to_delivery_seconds",
			Help:    "Time from a message's commit, by the database's clock, to its answer being written, of first deliveries.",
			Buckets: []float64{.0005, .001, .002, .005, .01, .025, .05, .1, .25, .5, 1, 5, 30, 300},
		}),
		pushed: prometheus.NewCounter(prometheus.CounterOpts{Name: "belfry_push_messages_total", Help: "Messages stored."}),
		popped: prometheus.NewCounter(prometheus.CounterOpts{Name: "belfry_pop_messages_total", Help: "Messages delivered."}),
		acked: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "belfry_ack_messages_total", Help: "Acknowledgments, by what became of them.",
		}, []string{"result"}),
	}
	// A counter that appears with its first count hides it from increase().
	for _, result := range []string{ackSucceeded, ackDeadLettered, ackRefused} {
		m.acked.WithLabelValues(result)
	}
	for _, code := range []queue.Code{queue.CodeUnavailable, queue.CodeOverloaded, queue.CodeInternal} {
		m.errors.WithLabelValues(string(code))
	}
	reg.MustRegister(m.requests, m.errors, m.delivery, m.pushed, m.popped, m.acked)
	return m
}

// stored records an answered push of n messages.
func (m *Metrics) stored(n int) {
	m.pushed.Add(float64(n))
	m.ingested.add(time.Now(), n)
}

// delivered records a delivery whose answer has just been written. Both clocks
// are read at their own ends: the database's from commit to claim, ours from
// the claim's arrival to the write.
func (m *Metrics) delivered(d *queue.Delivery) {
	m.popped.Add(float64(len(d.Messages)))
	if d.LeaseID.IsZero() { // autoAck: nobody will acknowledge it
		m.processed.add(time.Now(), len(d.Messages))
	}
	ours := time.Since(d.ReceivedAt)
	for i := range d.Messages {
		if d.Messages[i].Attempt <= 1 {
			m.delivery.Observe((d.DatabaseNow.Sub(d.Messages[i].CreatedAt) + ours).Seconds())
		}
	}
}

func (m *Metrics) acknowledged(results []queue.AckResult) {
	done := 0
	for i := range results {
		if results[i].Success {
			done++
		}
		switch {
		case results[i].DeadLettered:
			m.acked.WithLabelValues(ackDeadLettered).Inc()
		case results[i].Success:
			m.acked.WithLabelValues(ackSucceeded).Inc()
		default:
			m.acked.WithLabelValues(ackRefused).Inc()
		}
	}
	m.processed.add(time.Now(), done)
}

// measure times every request by route.
func (m *Metrics) measure(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		started := time.Now()
		err := next(c)
		if err != nil {
			c.Error(err)
		}
		route := c.Path()
		if route == "" {
			route = "none"
		}
		m.requests.WithLabelValues(route, strconv.Itoa(c.Response().Status)).Observe(time.Since(started).Seconds())
		return nil
	}
}

// prometheus serves GET /metrics/prometheus.
func (m *Metrics) prometheus(c echo.Context) error {
	c.Response().Header().Set("Cache-Control", "no-cache")
	promhttp.HandlerFor(m.reg, promhttp.HandlerOpts{}).ServeHTTP(c.Response(), c.Request())
	return nil
}
