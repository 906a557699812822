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
	urgent    *pgxpool.Pool // may be nil
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

// Metrics are the metrics of a Store: group commit by operation, messages that claims skip, and
// messages that pushes refuse.
type Metrics struct {
	flushes *groupcommit.Metrics
	claims  *claim.Metrics
	pushes  *push.Metrics
}

// NewMetrics registers the metrics with reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	return &Metrics{flushes: groupcommit.NewMetrics(reg), claims: claim.NewMetrics(reg), pushes: push.NewMetrics(reg)}
}

// Flushes are the current load of an operation of a Store, and the totals of its flushes.
type Flushes = groupcommit.Figures

// Flushes returns the figures of group commit, one element for each operation. The order is always the same.
func (m *Metrics) Flushes() []Flushes { return m.flushes.Figures() }

// Config is the configuration of a Store.
type Config struct {
	// Defaults are the options of queues that a push creates.
	Defaults queue.Defaults
	// Sealer may be nil. Then pushes to queues with encryptionEnabled are refused.
	Sealer *seal.Sealer
	Batch  batch.Config
	// MaxPopBytes bounds the bytes of messages in the answer to one pop. A pop may always deliver
	// one message. 0 means 16 MiB.
	MaxPopBytes int64
	// Events is the bus on which the store publishes its changes. If it is nil, the store creates a
	// bus.
	Events *events.Bus
	// Handoffs finds the requests that wait for messages. If it is nil, pushes make no handoffs.
	Handoffs Handoffs
	// Urgent has separate connections for the preflights and claims of woken pops, so that these
	// never queue behind other requests. If it is nil, they use the pool of the store.
	Urgent *pgxpool.Pool
	// Instance is the name of this instance, which is stored with failed attempts.
	Instance string
}

// Handoffs finds the requests that wait for messages.
type Handoffs interface {
	// Handoffs returns the waiting requests for which a push to one partition makes claims, in
	// order. The store calls Take of each request before it publishes that the partition is ready.
	// Handoffs must not block.
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
		Pool: pool, Names: s.names, Waker: s.waker, Delivered: s.delivered, Instance: cfg.Instance,
	}, cfg.Batch, metrics.flushes)
	s.transactions = transaction.New(transaction.Deps{
		Pool: pool, Names: s.names, Quotas: s.quotas, Waker: s.waker, Pushes: s.pushes, Acks: s.acks,
	}, cfg.Batch, metrics.flushes)
	cfg.Events.Subscribe(s)
	return s
}

// Close refuses new calls, and waits until the accepted calls are answered or ctx ends.
func (s *Store) Close(ctx context.Context) error {
	defer s.names.Close()
	defer s.quotas.Close()
	return errors.Join(s.pushes.Close(ctx), s.acks.Close(ctx), s.claims.Close(ctx), s.transactions.Close(ctx), s.acks.CloseWaiting(ctx))
}

// Warm runs every hot statement once on each connection that the pools keep open, so that the first
// requests are as fast as later ones. It changes nothing in the database. It blocks until all
// statements have run, ctx ends, or the database timeout is over. It does nothing through a pooler in
// transaction mode.
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

// healInterval is the minimum time between two heals, even if connections break more often.
const healInterval = time.Second

// Run heals at the start and after every lost connection, and settles the cursors that SQL consumers
// leave due, until ctx ends. After an error, a heal continues at the page that failed.
//
// A lost connection may also have lost the answer of a wake. Then the cursors are ready but were not
// announced, and no heal finds them. So Run publishes a resync after a heal that was caused by a broken
// connection or by a new sequencer. Before the resync, Run releases the leases of claims whose answer was
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
			s.log.Warn("a heal failed and will be continued", zap.Int("cursors", pass.Cursors), zap.Error(err))
			next.Reset(healInterval)
			continue
		}
		level := zap.DebugLevel // During a start, several heals may run. Only the first heal is logged at info.
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
		case <-s.pool.Losses(): // a connection that was lost during the heal causes another heal
			broken = s.pool.TakeBroken()
			next.Reset(healInterval)
		}
	}
}

// heal continues pass and updates the counters.
func (s *Store) heal(ctx context.Context, pass *wake.Pass) error {
	before := pass.Partitions
	err := s.waker.Heal(ctx, pass)
	s.heals.Add(1)
	s.healed.Add(int64(pass.Partitions - before))
	return err
}

// Heals returns the number of heals that Run has made, and the number of partitions that they woke.
func (s *Store) Heals() (passes, partitions int64) { return s.heals.Load(), s.healed.Load() }
