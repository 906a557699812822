package schedule

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/sql"
)

var sqlCounts = sql.Query("engine/schedule/counts")

// maxCount is the largest number that Counts returns.
const maxCount = 100_000

// Counts describes the schedules that need an operator.
type Counts struct {
	// Errors is the number of schedules with an error, at most 100,000.
	Errors int64
	// Late is how late the schedule is that has been due longest, by the clock of the database. It is 0 if none is due.
	Late time.Duration
}

// Counts counts the schedules that need an operator. Errors: CodeUnavailable.
func (s *Store) Counts(ctx context.Context) (c Counts, err error) {
	err = s.pool.QueryRow(ctx, sqlCounts, int64(maxCount)).Scan(&c.Errors, (*postgres.Seconds)(&c.Late))
	return c, postgres.Wrapf(err, "counting the schedules")
}

// Metrics count the work of this instance.
type Metrics struct {
	messages, skipped, failures prometheus.Counter
	lateness                    prometheus.Histogram
}

// NewMetrics registers the metrics with reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	auto := promauto.With(reg)
	counter := func(name, help string) prometheus.Counter {
		return auto.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	return &Metrics{
		messages: counter("belfry_schedule_messages_total", "Messages of schedules that this instance has stored."),
		skipped:  counter("belfry_schedule_skipped_total", "Times that this instance skipped instants of a schedule, because they were missed or the last message was not finished."),
		failures: counter("belfry_schedule_failures_total", "Failed attempts to handle schedules."),
		lateness: auto.NewHistogram(prometheus.HistogramOpts{
			Name:    "belfry_schedule_lateness_seconds",
			Help:    "Time between the instant of a schedule and the commit of its message, by the clock of the database.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2, 5, 10, 60, 600, 3600},
		}),
	}
}
