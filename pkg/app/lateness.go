package app

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfry-mq/belfry/pkg/catalog"
)

// lateness is collected by asking the database, at a scrape and never else. A
// database that does not answer leaves its metrics out of the scrape.
type lateness struct {
	look         func(context.Context) (catalog.Lateness, error)
	oldest, late *prometheus.Desc
}

func newLateness(look func(context.Context) (catalog.Lateness, error)) *lateness {
	return &lateness{
		look: look,
		oldest: prometheus.NewDesc("belfry_oldest_ready_seconds",
			"Age of the oldest message that is ready and not taken; 0 when none is.", nil, nil),
		late: prometheus.NewDesc("belfry_late_groups",
			"Consumer groups with a ready message older than the maxWaitTimeSeconds of its queue.", nil, nil),
	}
}

func (l *lateness) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- l.oldest
	descriptions <- l.late
}

func (l *lateness) Collect(samples chan<- prometheus.Metric) {
	found, err := l.look(context.Background())
	if err != nil {
		return // health and the error counters say that the database is away
	}
	samples <- prometheus.MustNewConstMetric(l.oldest, prometheus.GaugeValue, found.Oldest.Seconds())
	samples <- prometheus.MustNewConstMetric(l.late, prometheus.GaugeValue, float64(found.Groups))
}
