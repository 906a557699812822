package sweep

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/process/backoff"
	"github.com/belfry-mq/belfry/pkg/process/events"
)

// The jobs, as the table belfry.sweep and the metrics name them.
const (
	jobRetention  = "retention"
	jobEviction   = "eviction"
	jobPartitions = "partitions"
	jobAudit      = "audit"
	jobHistory    = "history"
)

const (
	// pageSize is how many partitions one search covers.
	pageSize = 1000
	// maxPause is the longest pause between two steps.
	maxPause = time.Second
)

// Sweeper runs the sweeps. It is safe for concurrent use.
type Sweeper struct {
	pool    *postgres.Pool
	cfg     Config
	events  *events.Bus
	metrics *Metrics
	log     *zap.Logger
	// pauseFactor is the duration of a pause, as a multiple of the work before it.
	pauseFactor int
}

// New returns a Sweeper on pool that publishes its changes on bus.
func New(pool *postgres.Pool, cfg Config, bus *events.Bus, metrics *Metrics, log *zap.Logger) *Sweeper {
	return &Sweeper{pool: pool, cfg: cfg, events: bus, metrics: metrics, log: log, pauseFactor: 7}
}

// job is one of the sweeps.
type job struct {
	name     string
	interval time.Duration
	// evict and batch are for the jobs that trim logs.
	evict bool
	batch int64
	// needed reports whether a queue needs the job. It is nil if the job always runs.
	needed func(ctx context.Context) (bool, error)
	run    func(ctx context.Context, l *jobLease) error
}

func (s *Sweeper) retention() job {
	return s.trimJob(job{name: jobRetention, interval: s.cfg.RetentionInterval, batch: int64(s.cfg.RetentionBatchSize)})
}

func (s *Sweeper) eviction() job {
	return s.trimJob(job{name: jobEviction, interval: s.cfg.EvictionInterval, batch: int64(s.cfg.EvictionBatchSize), evict: true})
}

func (s *Sweeper) partitions() job {
	return job{name: jobPartitions, interval: s.cfg.PartitionCleanupInterval, run: s.removeIdle}
}

// Run runs each job at once and then once per interval, until ctx ends. It returns nil. A run that
// fails is logged; the next interval repeats it.
func (s *Sweeper) Run(ctx context.Context) error {
	var running sync.WaitGroup
	for _, j := range s.jobs() {
		running.Go(func() { s.runPeriodically(ctx, j) })
	}
	running.Wait()
	return nil
}

// jobs returns the jobs that the configuration turns on.
func (s *Sweeper) jobs() []job {
	jobs := []job{s.retention(), s.eviction()}
	if s.cfg.PartitionCleanupDays > 0 {
		jobs = append(jobs, s.partitions())
	}
	if s.cfg.AuditRetention > 0 {
		jobs = append(jobs, s.audit())
	}
	return append(jobs, s.history())
}

func (s *Sweeper) runPeriodically(ctx context.Context, j job) {
	ticker := time.NewTicker(j.interval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		if err := s.runOnce(ctx, j); err != nil && ctx.Err() == nil {
			s.metrics.failures.WithLabelValues(j.name).Inc()
			s.log.Warn("a sweep failed; it will be tried again", zap.String("job", j.name), zap.Duration("after", j.interval), zap.Error(err))
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// runOnce runs a job if a queue needs it, it is due and no other instance runs it.
func (s *Sweeper) runOnce(ctx context.Context, j job) error {
	if j.needed != nil {
		if needed, err := j.needed(ctx); err != nil || !needed {
			return err
		}
	}
	lease, err := s.acquire(ctx, j)
	if err != nil || lease == nil {
		return err
	}
	began := time.Now()
	err = j.run(ctx, lease)
	took := time.Since(began)
	s.metrics.backlog.WithLabelValues(j.name).Set(0)
	s.metrics.last.WithLabelValues(j.name).Set(took.Seconds())
	s.metrics.seconds.WithLabelValues(j.name).Add(took.Seconds())
	if err == nil {
		s.metrics.runs.WithLabelValues(j.name).Inc()
	}
	if released := lease.release(ctx); err == nil {
		err = released
	}
	return err
}

// pause waits in proportion to the work before it, so that requests get most of the database.
func (s *Sweeper) pause(ctx context.Context, worked time.Duration) error {
	return backoff.Sleep(ctx, min(time.Duration(s.pauseFactor)*worked, maxPause))
}
