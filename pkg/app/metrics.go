package app

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/belfry-mq/belfry/pkg/engine/catalog"
	"github.com/belfry-mq/belfry/pkg/engine/inbox"
	"github.com/belfry-mq/belfry/pkg/engine/schedule"
	"github.com/belfry-mq/belfry/pkg/postgres"
)

// droppingCore is the core of a log that drops lines when its reader stalls.
type droppingCore struct {
	zapcore.Core
	dropped func() int64
}

// CountDropped returns a core for the log that the caller gives to Run. Run then exports dropped as the metric
// belfry_log_dropped_total.
func CountDropped(core zapcore.Core, dropped func() int64) zapcore.Core {
	return droppingCore{core, dropped}
}

const (
	// scrapeTimeout bounds a query that a scrape makes.
	scrapeTimeout = 2 * time.Second
	// scrapeAge is how long scrapes share the result of a query. Anybody may scrape, so more scrapes must not cause more queries.
	scrapeAge = time.Second
)

// registerGauges registers the metrics that are read from the packages at each scrape.
func registerGauges(reg *prometheus.Registry, pool *postgres.Pool, p *parts, log *zap.Logger) {
	gauge := func(name, help string, value func() float64) {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
	}
	counter := func(name, help string, value func() float64) {
		reg.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, value))
	}
	if core, ok := log.Core().(droppingCore); ok {
		counter("belfry_log_dropped_total", "Lines of the log that were dropped because nobody read them.", func() float64 { return float64(core.dropped()) })
	}
	gauge("belfry_http_inflight_bytes", "Memory of the requests and answers in flight; see http.max_inflight_bytes.",
		func() float64 { return float64(p.server.Inflight().Used()) })
	gauge("belfry_pool_connections", "Connections of the pool.", func() float64 { return float64(pool.Stat().TotalConns()) })
	gauge("belfry_pool_acquired", "Connections in use.", func() float64 { return float64(pool.Stat().AcquiredConns()) })
	counter("belfry_heals_total", "Searches for partitions that a crash left without a wake.", func() float64 {
		passes, _ := p.verbs.Heals()
		return float64(passes)
	})
	counter("belfry_healed_partitions_total", "Partitions that a crash left without a wake, and that were woken.", func() float64 {
		_, partitions := p.verbs.Heals()
		return float64(partitions)
	})
	gauge("belfry_listener_proven", "1 while the listener is proven to receive notifications.", func() float64 {
		if p.listener.Proven() {
			return 1
		}
		return 0
	})
	gauge("belfry_listener_seconds_since_proof", "Seconds since the listener last proved itself.",
		func() float64 { return p.listenerState().SecondsSinceProof })
	gauge("belfry_listener_peers", "Other instances that this one hears.", func() float64 { return float64(p.listener.Peers()) })
	counter("belfry_listener_reconnects_total", "Reconnects of the listener.",
		func() float64 { return float64(p.listener.Reconnects()) })
	counter("belfry_listener_garbage_total", "Notifications that could not be read. Every role of the database can send them.",
		func() float64 { return float64(p.listener.Unreadable()) })
	counter("belfry_notify_flushes_total", "Notifying commits.", func() float64 { return float64(p.sender.Stats.Flushes.Load()) })
	counter("belfry_notify_failures_total", "Notifying commits that failed.", func() float64 { return float64(p.sender.Stats.Failures.Load()) })
	counter("belfry_notify_entries_in_total", "Announcements given to the sender.",
		func() float64 { return float64(p.sender.Stats.EntriesIn.Load()) })
	counter("belfry_notify_entries_withheld_total", "Announcements that were not sent because no other instance could be listening.",
		func() float64 { return float64(p.sender.Stats.Withheld.Load()) })
	counter("belfry_notify_entries_out_total", "Announcements sent after coalescing.",
		func() float64 { return float64(p.sender.Stats.EntriesOut.Load()) })
}

// scraped are gauges whose values one query reads for all scrapes within scrapeAge. If the database does not answer, these
// scrapes lack the gauges. /health and the error counters then show that the database is down.
type scraped struct {
	gauges []*prometheus.Desc
	// read returns the values of the gauges, in their order.
	read func(context.Context) ([]float64, error)

	mu     sync.Mutex
	next   time.Time // the values are read again at this time
	values []float64 // nil if the latest query failed
}

func (s *scraped) Describe(descriptions chan<- *prometheus.Desc) {
	for _, d := range s.gauges {
		descriptions <- d
	}
}

// Collect may block while this scrape or another scrape queries the database.
func (s *scraped) Collect(samples chan<- prometheus.Metric) {
	for i, value := range s.latest() {
		samples <- prometheus.MustNewConstMetric(s.gauges[i], prometheus.GaugeValue, value)
	}
}

func (s *scraped) latest() []float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Now().Before(s.next) {
		return s.values
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	var err error
	if s.values, err = s.read(ctx); err != nil {
		s.values = nil
	}
	s.next = time.Now().Add(scrapeAge)
	return s.values
}

func inboxCounts(count func(context.Context) (inbox.Counts, error)) *scraped {
	return &scraped{
		gauges: []*prometheus.Desc{
			prometheus.NewDesc("belfry_inbox_waiting_rows",
				"Messages written by SQL that are committed and not yet in their partitions; counted up to 100000.", nil, nil),
			prometheus.NewDesc("belfry_inbox_rejected_rows",
				"Messages written by SQL that could not be sequenced and are in belfry.inbox_rejected; counted up to 100000.", nil, nil),
			prometheus.NewDesc("belfry_inbox_oldest_seconds",
				"Age of the oldest message that waits to be sequenced; 0 when none waits.", nil, nil),
		},
		read: func(ctx context.Context) ([]float64, error) {
			found, err := count(ctx)
			return []float64{float64(found.Waiting), float64(found.Rejected), found.Oldest.Seconds()}, err
		},
	}
}

func scheduleCounts(count func(context.Context) (schedule.Counts, error)) *scraped {
	return &scraped{
		gauges: []*prometheus.Desc{
			prometheus.NewDesc("belfry_schedule_errors",
				"Schedules with an error, which have no instants until they are changed; counted up to 100000.", nil, nil),
			prometheus.NewDesc("belfry_schedule_late_seconds",
				"How late the schedule is that has been due longest; 0 when none is due.", nil, nil),
		},
		read: func(ctx context.Context) ([]float64, error) {
			found, err := count(ctx)
			return []float64{float64(found.Errors), found.Late.Seconds()}, err
		},
	}
}

func openBreakers(count func(context.Context) (int64, error)) *scraped {
	return &scraped{
		gauges: []*prometheus.Desc{
			prometheus.NewDesc("belfry_breakers_open",
				"Breakers of consumer groups that are open or half-open; counted up to 100000.", nil, nil),
		},
		read: func(ctx context.Context) ([]float64, error) {
			found, err := count(ctx)
			return []float64{float64(found)}, err
		},
	}
}

func lateness(read func(context.Context, time.Duration) (catalog.Lateness, error), lateAfter time.Duration) *scraped {
	return &scraped{
		gauges: []*prometheus.Desc{
			prometheus.NewDesc("belfry_oldest_ready_seconds",
				"Age of the oldest message that is ready and not claimed; 0 when there is none.", nil, nil),
			prometheus.NewDesc("belfry_late_groups",
				"Late consumer groups: a ready message is older than problems.late_after, or half of maxWaitTimeSeconds of its queue.", nil, nil),
		},
		read: func(ctx context.Context) ([]float64, error) {
			found, err := read(ctx, lateAfter)
			return []float64{found.Oldest.Seconds(), float64(found.Groups)}, err
		},
	}
}
