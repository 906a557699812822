package app

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/pkg/httpapi"
	"github.com/belfry-mq/belfry/pkg/inbox"
	"github.com/belfry-mq/belfry/pkg/postgres"
)

// scrapeTimeout bounds what is asked of the database for a scrape.
const scrapeTimeout = 2 * time.Second

// openInbox makes the sequencer and its connections, which lead directly to
// Postgres: its lock belongs to a session.
func (p *parts) openInbox(
	ctx context.Context, cfg config.Config, pool *postgres.Pool, proven func() bool, reg *prometheus.Registry, log *zap.Logger,
) error {
	direct := cfg.Database
	direct.URL, direct.PoolSize = cfg.Database.DirectURL(), inbox.Connections
	own, err := postgres.Open(ctx, direct, "belfry-inbox", 0)
	if err != nil {
		return err
	}
	own.ForwardLossesTo(pool)
	before := p.close
	p.close = func() {
		own.Close()
		before()
	}
	p.sequencer = inbox.New(pool, own, p.verbs, proven, inbox.Config{
		MaxPayload:       cfg.HTTP.MaxBodyBytes,
		FallbackInterval: cfg.Dispatch.FallbackInterval, PollInterval: cfg.Dispatch.MaxPollInterval,
	}, inbox.NewMetrics(reg), log)
	reg.MustRegister(newInboxCounts(p.sequencer.Counts))
	return nil
}

// inboxCounts is collected by asking the database, at a scrape and never else. A
// database that does not answer leaves its metrics out of the scrape.
type inboxCounts struct {
	count                     func(context.Context) (inbox.Counts, error)
	waiting, rejected, oldest *prometheus.Desc
}

func newInboxCounts(count func(context.Context) (inbox.Counts, error)) *inboxCounts {
	return &inboxCounts{
		count: count,
		waiting: prometheus.NewDesc("belfry_inbox_waiting_rows",
			"Messages written by SQL that are committed and not yet in their partitions; counted up to 100000.", nil, nil),
		rejected: prometheus.NewDesc("belfry_inbox_rejected_rows",
			"Messages written by SQL that could not be sequenced and lie in belfry.inbox_rejected; counted up to 100000.", nil, nil),
		oldest: prometheus.NewDesc("belfry_inbox_oldest_seconds",
			"How long ago the oldest message that waits to be sequenced was written; 0 when none waits.", nil, nil),
	}
}

func (c *inboxCounts) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- c.waiting
	descriptions <- c.rejected
	descriptions <- c.oldest
}

func (c *inboxCounts) Collect(samples chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	found, err := c.count(ctx)
	if err != nil {
		return // health and the error counters say that the database is away
	}
	samples <- prometheus.MustNewConstMetric(c.waiting, prometheus.GaugeValue, float64(found.Waiting))
	samples <- prometheus.MustNewConstMetric(c.rejected, prometheus.GaugeValue, float64(found.Rejected))
	samples <- prometheus.MustNewConstMetric(c.oldest, prometheus.GaugeValue, found.Oldest.Seconds())
}

// inboxState is what the status of the dispatcher tells of the inbox.
func (p *parts) inboxState(ctx context.Context) (httpapi.InboxState, error) {
	found, err := p.sequencer.Counts(ctx)
	if err != nil {
		return httpapi.InboxState{}, err
	}
	holder, err := p.sequencer.Holder(ctx)
	return httpapi.InboxState{
		Waiting: found.Waiting, Rejected: found.Rejected, Oldest: found.Oldest, Leading: found.Leading, Holder: (*httpapi.InboxHolder)(holder),
	}, err
}
