package inbox

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// countMost is up to where rows are counted.
const countMost = 100_000

// Counts is what lies in the tables. Numbers stop at 100,000.
type Counts struct {
	// Waiting are rows that were committed and not sequenced yet, Rejected those that
	// could not be.
	Waiting, Rejected int64
	// Oldest is how long ago the first of those that wait was inserted, by the
	// database's clock; zero when none waits.
	Oldest time.Duration
	// Leading: this instance is the sequencer.
	Leading bool
}

// Counts looks into the tables. Errors: CodeUnavailable. ctx ends it.
func (s *Sequencer) Counts(ctx context.Context) (Counts, error) {
	c := Counts{Leading: s.leading.Load()}
	var oldest float64
	if err := s.pool.QueryRow(ctx, sqlCounts, int64(countMost)).Scan(&c.Waiting, &c.Rejected, &oldest); err != nil {
		return c, postgres.Wrap(fmt.Errorf("counting the inbox: %w", err))
	}
	c.Oldest = time.Duration(oldest * float64(time.Second))
	return c, nil
}

// Metrics are what this room measures: what this instance did.
type Metrics struct {
	sequenced, duplicates, transactions, failures, takeovers prometheus.Counter
	rejected                                                 *prometheus.CounterVec
	leading                                                  prometheus.Gauge
}

// NewMetrics registers the metrics with reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		reg.MustRegister(c)
		return c
	}
	m := &Metrics{
		sequenced:    counter("belfry_inbox_sequenced_total", "Messages written by SQL that were moved into their partitions."),
		duplicates:   counter("belfry_inbox_duplicates_total", "Messages written by SQL whose transaction id was stored already."),
		transactions: counter("belfry_inbox_transactions_total", "Transactions that moved messages written by SQL."),
		failures:     counter("belfry_inbox_failures_total", "Failures of the sequencer, which tries again."),
		takeovers:    counter("belfry_inbox_takeovers_total", "How often this instance became the sequencer."),
		rejected: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "belfry_inbox_rejected_total", Help: "Messages written by SQL that could not be sequenced, by reason.",
		}, []string{"code"}),
		leading: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "belfry_inbox_sequencer", Help: "1 while this instance is the sequencer.",
		}),
	}
	for _, code := range []queue.Code{queue.CodeInvalid, queue.CodeTooLarge, queue.CodeQueueFull} {
		m.rejected.WithLabelValues(string(code))
	}
	reg.MustRegister(m.rejected, m.leading)
	return m
}
