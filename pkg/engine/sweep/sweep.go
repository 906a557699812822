package sweep

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/process/backoff"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

// The names of the jobs in the table belfry.sweep and in the metrics.
const (
	jobRetention  = "retention"
	jobEviction   = "eviction"
	jobPartitions = "partitions"
	jobAudit      = "audit"
	jobHistory    = "history"
)

const (
	// pageSize is the number of partitions that one search examines.
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
	// pauseFactor is the ratio of a pause to the work before it.
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
	// evict and batch are used only by the jobs that trim logs.
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

// Run runs each job at once and then once per interval, until ctx ends. It returns nil. It logs a
// failed run, and repeats the job after the next interval.
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

// pause waits pauseFactor times as long as the work before it, at most maxPause, so that requests
// get most of the time of the database.
func (s *Sweeper) pause(ctx context.Context, worked time.Duration) error {
	return backoff.Sleep(ctx, min(time.Duration(s.pauseFactor)*worked, maxPause))
}

const (
	// leaseDuration is the time after which a lease ends without a renewal.
	leaseDuration = 30 * time.Second
	// renewAfter is the age at which a lease is renewed.
	renewAfter = leaseDuration / 6
	// dueShare is the fraction of an interval after which the next run is due. It is below 1, so
	// that a small drift of clocks does not skip a run.
	dueShare = 0.9
)

var (
	sqlTake = sql.Query("engine/sweep/take")
	sqlHold = sql.Query("engine/sweep/hold")
	sqlDone = sql.Query("engine/sweep/done")
)

// errLeaseLost ends a run whose lease another instance has taken over.
var errLeaseLost = errors.New("another instance has taken over the job of the sweep")

// jobLease is the right of this instance to run a job.
type jobLease struct {
	s       *Sweeper
	job     string
	id      queue.ID
	renewed time.Time
}

// acquire leases a job. It returns nil if the job is not due or another instance runs it.
func (s *Sweeper) acquire(ctx context.Context, j job) (*jobLease, error) {
	l := &jobLease{s: s, job: j.name, id: queue.NewID(), renewed: time.Now()}
	err := s.pool.ScanRow(ctx, []any{nil}, sqlTake, j.name, [16]byte(l.id), leaseDuration.Seconds(), dueShare*j.interval.Seconds())
	switch {
	case postgres.IsNoRows(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("acquiring the sweep %s: %w", j.name, err)
	}
	return l, nil
}

// renew extends the lease if it is older than renewAfter. Call it between two steps. It returns
// errLeaseLost if another instance has the job, and ctx.Err() if ctx has ended.
func (l *jobLease) renew(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if time.Since(l.renewed) < renewAfter {
		return nil
	}
	err := l.s.pool.ScanRow(ctx, []any{nil}, sqlHold, l.job, [16]byte(l.id), leaseDuration.Seconds())
	switch {
	case postgres.IsNoRows(err):
		return errLeaseLost
	case err != nil:
		return fmt.Errorf("renewing the lease of the sweep %s: %w", l.job, err)
	}
	l.renewed = time.Now()
	return nil
}

// release ends the lease. It does nothing if another instance has the job.
func (l *jobLease) release(ctx context.Context) error {
	ctx, cancel := l.s.pool.Bounded(ctx)
	defer cancel()
	if _, err := l.s.pool.Exec(ctx, sqlDone, l.job, [16]byte(l.id)); err != nil {
		return fmt.Errorf("releasing the sweep %s: %w", l.job, err)
	}
	return nil
}
