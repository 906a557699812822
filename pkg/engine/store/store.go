package store

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/belfry-mq/belfry/pkg/engine/batch"
	"github.com/belfry-mq/belfry/pkg/engine/seal"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/ack"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/claim"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/delivered"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/groupcommit"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/names"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/push"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/quota"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/scanfloor"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/transaction"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/wake"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/warm"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Store runs the hot verbs. It is safe for concurrent use.
type Store struct {
	events.Nop
	pool      *postgres.Pool
	bus       *events.Bus
	handoffs  Handoffs
	log       *zap.Logger
	urgent    *pgxpool.Pool // nil: there is none
	waker     *wake.Waker
	names     *names.Directory
	floors    *scanfloor.Floors
	delivered *delivered.Cache

	quotas       *quota.Quotas
	claims       *claim.Claimer
	pushes       *push.Pusher
	acks         *ack.Acker
	transactions *transaction.Runner
	// heals and healed count the passes of Run and the partitions that they woke.
	heals, healed atomic.Int64
}

// Metrics are the metrics of a Store: of group commit by operation, and of what claims skip and pushes
// refuse.
type Metrics struct {
	flushes *groupcommit.Metrics
	claims  *claim.Metrics
	pushes  *push.Metrics
}

// NewMetrics registers the metrics with reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	return &Metrics{flushes: groupcommit.NewMetrics(reg), claims: claim.NewMetrics(reg), pushes: push.NewMetrics(reg)}
}

// Flushes are the load of an operation of a Store, and what its flushes did.
type Flushes = groupcommit.Figures

// Flushes returns the figures of group commit, one element for each operation. The order is always the same.
func (m *Metrics) Flushes() []Flushes { return m.flushes.Figures() }

// Config is what a Store needs to know.
type Config struct {
	// Defaults are given to queues that a push creates.
	Defaults queue.Defaults
	// Sealer may be nil: then pushes to queues with encryptionEnabled are refused.
	Sealer *seal.Sealer
	Batch  batch.Config
	// MaxPopBytes bounds the messages of one pop in bytes of its answer; a pop delivers at least one
	// message. 0: 16 MiB.
	MaxPopBytes int64
	// Events carries what the store commits to the other packages; nil: a bus of its own.
	Events *events.Bus
	// Handoffs knows the requests that wait for a push; nil: none.
	Handoffs Handoffs
	// Urgent are connections for the preflights and claims of woken pops, so that these never queue
	// behind ordinary traffic; nil: they use the store's pool.
	Urgent *pgxpool.Pool
}

// Handoffs knows the requests that wait for a push.
type Handoffs interface {
	// Handoffs returns the claims to make with a push to one partition, in order. The store calls
	// Take of each before it publishes that the partition is ready. It does not block.
	Handoffs(queueName, partition string) []queue.Handoff
}

// defaultMaxPopBytes is the default of Config.MaxPopBytes.
const defaultMaxPopBytes = 16 << 20

// New returns a Store on pool. Close it after the last verb.
func New(pool *postgres.Pool, cfg Config, metrics *Metrics, log *zap.Logger) *Store {
	if cfg.Events == nil {
		cfg.Events = &events.Bus{}
	}
	if cfg.MaxPopBytes == 0 {
		cfg.MaxPopBytes = defaultMaxPopBytes
	}
	s := &Store{
		pool: pool, bus: cfg.Events, handoffs: cfg.Handoffs, urgent: cfg.Urgent, log: log,
		waker: wake.New(pool, cfg.Events, log), floors: scanfloor.New(), delivered: delivered.New(),
	}
	s.names = names.New(names.Deps{
		Pool: pool, Events: cfg.Events, Waker: s.waker, Floors: s.floors, Defaults: cfg.Defaults, Log: log,
	})
	s.claims = claim.New(claim.Deps{
		Pool: pool, Urgent: cfg.Urgent, Names: s.names, Waker: s.waker, Floors: s.floors, Delivered: s.delivered,
		Sealer: cfg.Sealer, MaxBytes: cfg.MaxPopBytes, Metrics: metrics.claims, Log: log,
	}, cfg.Batch, metrics.flushes)
	s.quotas = quota.New(depthOf(pool))
	s.pushes = push.New(push.Deps{
		Pool: pool, Names: s.names, Quotas: s.quotas, Waker: s.waker, Claims: s.claims, Handoffs: s.handoffsOf, Sealer: cfg.Sealer,
		Metrics: metrics.pushes,
	}, cfg.Batch, metrics.flushes)
	s.acks = ack.New(ack.Deps{
		Pool: pool, Names: s.names, Waker: s.waker, Delivered: s.delivered,
	}, cfg.Batch, metrics.flushes)
	s.transactions = transaction.New(transaction.Deps{
		Pool: pool, Names: s.names, Quotas: s.quotas, Waker: s.waker, Pushes: s.pushes, Acks: s.acks,
	}, cfg.Batch, metrics.flushes)
	cfg.Events.Subscribe(s)
	return s
}

// Close answers the calls that were accepted and refuses new ones, until ctx ends.
func (s *Store) Close(ctx context.Context) error {
	defer s.names.Close()
	defer s.quotas.Close()
	return errors.Join(s.pushes.Close(ctx), s.acks.Close(ctx), s.claims.Close(ctx), s.transactions.Close(ctx), s.acks.CloseWaiting(ctx))
}

// Warm runs every hot statement once on each connection that the pools keep open, so that the first
// requests are as fast as later ones. It changes nothing in the database. It blocks until it is done
// or ctx ends, for the database timeout at most, and does nothing through a pooler in transaction mode.
func (s *Store) Warm(ctx context.Context) error {
	if s.pool.TransactionPooled() {
		return nil
	}
	bounded, cancel := s.pool.Bounded(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)() // nothing is lost with these connections
	var work errgroup.Group
	work.Go(func() error { return warm.Pool(bounded, s.pool.Pool) })
	if s.urgent != nil {
		work.Go(func() error { return warm.Pool(bounded, s.urgent) })
	}
	return postgres.Wrap(work.Wait())
}

// healInterval is the least time between two heals, however often connections break.
const healInterval = time.Second

// Run heals at the start and after every lost connection, and settles the cursors that SQL consumers
// leave, until ctx ends. A failed heal goes on where it failed.
//
// A lost connection may also have lost the answer of a wake: then the cursors are ready, no heal finds
// them, and they were never announced. So a heal that began after a connection broke, or after another
// sequencer ended, is followed by a resync. Before it, Run releases the leases of claims whose answer was
// lost.
func (s *Store) Run(ctx context.Context) error {
	var settling sync.WaitGroup
	settling.Go(func() { s.waker.RunSettling(ctx) })
	defer settling.Wait()
	next := time.NewTimer(0)
	var pass wake.Pass
	broken, first := s.pool.TakeBroken(), true
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-next.C:
		}
		if err := s.heal(ctx, &pass); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			s.log.Warn("a heal failed and will go on", zap.Int("cursors", pass.Cursors), zap.Error(err))
			next.Reset(healInterval)
			continue
		}
		level := zap.DebugLevel // During a start the search runs several times. Only the first one is logged at info.
		if first || pass.Partitions > 0 {
			level = zap.InfoLevel
		}
		first = false
		s.log.Log(level, "searched for partitions whose wake did not run", zap.Int("cursors", pass.Cursors),
			zap.Int("woken_partitions", pass.Partitions), zap.Duration("took", time.Since(pass.Began)))
		pass = wake.Pass{}
		s.claims.ReleaseOrphans(ctx)
		if err := s.names.ResumeJoins(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("joins that had not ended were not resumed", zap.Error(err))
		}
		if broken {
			s.waker.Resync("the last commits may not have been announced")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.pool.Losses(): // a loss during the heal too: it gets its own heal
			broken = s.pool.TakeBroken()
			next.Reset(healInterval)
		}
	}
}

// heal goes on with pass and counts.
func (s *Store) heal(ctx context.Context, pass *wake.Pass) error {
	before := pass.Partitions
	err := s.waker.Heal(ctx, pass)
	s.heals.Add(1)
	s.healed.Add(int64(pass.Partitions - before))
	return err
}

// Heals returns how often Run has healed, and how many partitions that woke.
func (s *Store) Heals() (passes, partitions int64) { return s.heals.Load(), s.healed.Load() }
