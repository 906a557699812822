package sweep

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/belfry-mq/belfry/pkg/events"
	"github.com/belfry-mq/belfry/pkg/postgres"
)

// The jobs, as the table belfry.sweep and the metrics name them.
const (
	jobRetention  = "retention"
	jobEviction   = "eviction"
	jobPartitions = "partitions"
)

// page is how many partitions one look covers.
const page = 1000

// Sweeper runs the sweeps. It is safe for concurrent use.
type Sweeper struct {
	pool    *postgres.Pool
	cfg     Config
	events  *events.Bus
	metrics *Metrics
	log     *zap.Logger
	// idle is how much longer it rests than it works.
	idle int
}

// New returns a Sweeper on pool that publishes on bus what it changed.
func New(pool *postgres.Pool, cfg Config, bus *events.Bus, metrics *Metrics, log *zap.Logger) *Sweeper {
	return &Sweeper{pool: pool, cfg: cfg, events: bus, metrics: metrics, log: log, idle: 7}
}

// job is one of the sweeps.
type job struct {
	name  string
	every time.Duration
	// evict and batch are for the jobs that trim logs.
	evict bool
	batch int64
	// wanted says whether there may be anything to do; nil: there may.
	wanted func(ctx context.Context) (bool, error)
	run    func(ctx context.Context, h *hold) error
}

func (s *Sweeper) retention() job {
	j := job{name: jobRetention, every: s.cfg.RetentionInterval, batch: int64(s.cfg.RetentionBatchSize)}
	return s.trims(j)
}

func (s *Sweeper) eviction() job {
	j := job{name: jobEviction, every: s.cfg.EvictionInterval, batch: int64(s.cfg.EvictionBatchSize), evict: true}
	return s.trims(j)
}

func (s *Sweeper) partitions() job {
	return job{name: jobPartitions, every: s.cfg.PartitionCleanupInterval, run: s.removeIdle}
}

// Run sweeps at once and then in intervals, until ctx ends; it returns nil. A
// sweep that fails is logged and tried again when its interval comes round.
func (s *Sweeper) Run(ctx context.Context) error {
	var jobs errgroup.Group
	all := []job{s.retention(), s.eviction()}
	if s.cfg.PartitionCleanupDays > 0 {
		all = append(all, s.partitions())
	}
	for _, j := range all {
		jobs.Go(func() error {
			s.repeat(ctx, j)
			return nil
		})
	}
	return jobs.Wait()
}

func (s *Sweeper) repeat(ctx context.Context, j job) {
	ticker := time.NewTicker(j.every)
	defer ticker.Stop()
	for ctx.Err() == nil {
		if _, err := s.once(ctx, j); err != nil && ctx.Err() == nil {
			s.metrics.failures.WithLabelValues(j.name).Inc()
			s.log.Warn("a sweep failed; it will be tried again", zap.String("job", j.name), zap.Duration("after", j.every), zap.Error(err))
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// once runs a job if there is something to do and nobody else does it.
func (s *Sweeper) once(ctx context.Context, j job) (ran bool, err error) {
	if j.wanted != nil {
		wanted, err := j.wanted(ctx)
		if err != nil || !wanted {
			return false, err
		}
	}
	h, err := s.take(ctx, j)
	if err != nil || h == nil {
		return false, err
	}
	began := time.Now()
	err = j.run(ctx, h)
	took := time.Since(began)
	s.metrics.backlog.WithLabelValues(j.name).Set(0)
	s.metrics.last.WithLabelValues(j.name).Set(took.Seconds())
	s.metrics.seconds.WithLabelValues(j.name).Add(took.Seconds())
	if err == nil {
		s.metrics.runs.WithLabelValues(j.name).Inc()
	}
	if done := h.done(ctx); err == nil {
		err = done
	}
	return true, err
}

// rest lets others work.
func (s *Sweeper) rest(ctx context.Context, worked time.Duration) error {
	timer := time.NewTimer(min(time.Duration(s.idle)*worked, time.Second))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("resting: %w", ctx.Err())
	}
}
