package inbox

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var sqlCounts = sql.Query("engine/inbox/counts")

// maxCount is the largest number that Counts returns.
const maxCount = 100_000

// Counts is the number of rows in the tables, each at most 100,000.
type Counts struct {
	// Waiting is the number of committed rows that are not sequenced yet. Rejected is the number of
	// rows of belfry.inbox_rejected.
	Waiting, Rejected int64
	// Oldest is the age of the first waiting row by the clock of the database, 0 if no row waits.
	Oldest time.Duration
	// Leading is set if this instance is the sequencer.
	Leading bool
}

// Counts counts the rows of the inbox. Its query ends with ctx. Errors: CodeUnavailable.
func (s *Sequencer) Counts(ctx context.Context) (Counts, error) {
	c := Counts{Leading: s.leading.Load()}
	err := s.Pool.QueryRow(ctx, sqlCounts, int64(maxCount)).Scan(&c.Waiting, &c.Rejected, (*postgres.Seconds)(&c.Oldest))
	return c, postgres.Wrapf(err, "counting the inbox")
}

// Metrics count the work of this instance.
type Metrics struct {
	sequenced, duplicates, transactions, failures, takeovers prometheus.Counter
	rejected                                                 *prometheus.CounterVec
	leading                                                  prometheus.Gauge
}

// NewMetrics registers the metrics with reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	auto := promauto.With(reg)
	counter := func(name, help string) prometheus.Counter {
		return auto.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &Metrics{
		sequenced:    counter("belfry_inbox_sequenced_total", "Messages written by SQL that were moved into their partitions."),
		duplicates:   counter("belfry_inbox_duplicates_total", "Messages written by SQL whose transaction id was stored already."),
		transactions: counter("belfry_inbox_transactions_total", "Transactions that moved messages written by SQL."),
		failures:     counter("belfry_inbox_failures_total", "Failures of the sequencer, which tries again."),
		takeovers:    counter("belfry_inbox_takeovers_total", "How often this instance became the sequencer."),
		rejected: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "belfry_inbox_rejected_total", Help: "Messages written by SQL that could not be sequenced, by reason.",
		}, []string{"code"}),
		leading: auto.NewGauge(prometheus.GaugeOpts{
			Name: "belfry_inbox_sequencer", Help: "1 while this instance is the sequencer.",
		}),
	}
	for _, code := range []queue.Code{queue.CodeInvalid, queue.CodeTooLarge, queue.CodeQueueFull} {
		m.rejected.WithLabelValues(string(code))
	}
	return m
}
