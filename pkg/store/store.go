package store

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/batch"
	"github.com/belfry-mq/belfry/pkg/events"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/pkg/seal"
	"github.com/belfry-mq/belfry/pkg/store/internal/ack"
	"github.com/belfry-mq/belfry/pkg/store/internal/claim"
	"github.com/belfry-mq/belfry/pkg/store/internal/contention"
	"github.com/belfry-mq/belfry/pkg/store/internal/delivered"
	"github.com/belfry-mq/belfry/pkg/store/internal/names"
	"github.com/belfry-mq/belfry/pkg/store/internal/push"
	"github.com/belfry-mq/belfry/pkg/store/internal/quota"
	"github.com/belfry-mq/belfry/pkg/store/internal/scanfloor"
	"github.com/belfry-mq/belfry/pkg/store/internal/transaction"
	"github.com/belfry-mq/belfry/pkg/store/internal/wake"
)

// Store runs the hot verbs. It is safe for concurrent use.
type Store struct {
	events.Nop
	pool      *postgres.Pool
	bus       *events.Bus
	handoffs  Handoffs
	log       *zap.Logger
	waker     *wake.Waker
	names     *names.Directory
	floors    *scanfloor.Floors
	delivered *delivered.Cache

	claims       *claim.Claimer
	pushes       *push.Pusher
	acks         *ack.Acker
	transactions *transaction.Runner
	// heals and healed count the passes of Run and the partitions that they woke.
	heals, healed atomic.Int64
}

// Config is what a Store needs to know.
type Config struct {
	// Defaults are given to queues that a push creates.
	Defaults queue.Defaults
	// Sealer may be nil: then pushes to queues with encryptionEnabled are refused.
	Sealer *seal.Sealer
	Batch  batch.Config
	// Events carries what the store commits to the other rooms; nil: a bus of its own.
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

// New returns a Store on pool. Close it after the last verb.
func New(pool *postgres.Pool, cfg Config, metrics *Metrics, log *zap.Logger) *Store {
	if cfg.Events == nil {
		cfg.Events = &events.Bus{}
	}
	s := &Store{
		pool: pool, bus: cfg.Events, handoffs: cfg.Handoffs, log: log,
		waker: wake.New(pool, cfg.Events, log), floors: scanfloor.New(), delivered: delivered.New(),
	}
	s.names = names.New(pool, cfg.Events, s.waker, cfg.Defaults, log)
	observer := metrics.flushes.Observer
	s.claims = claim.New(claim.Deps{
		Pool: pool, Urgent: cfg.Urgent, Names: s.names, Waker: s.waker, Floors: s.floors, Delivered: s.delivered,
		Sealer: cfg.Sealer, Metrics: metrics.claims, Log: log,
	}, cfg.Batch, observer)
	quotas := quota.New(depthOf(pool))
	s.pushes = push.New(push.Deps{
		Pool: pool, Names: s.names, Quotas: quotas, Waker: s.waker, Claims: s.claims, Handoffs: s.handoffsOf, Sealer: cfg.Sealer,
		Metrics: metrics.pushes,
	}, cfg.Batch, observer("push"))
	s.acks = ack.New(ack.Deps{
		Pool: pool, Names: s.names, Waker: s.waker, Delivered: s.delivered, Contended: contention.New(),
	}, cfg.Batch, observer)
	s.transactions = transaction.New(transaction.Deps{
		Pool: pool, Names: s.names, Quotas: quotas, Waker: s.waker, Pushes: s.pushes, Acks: s.acks,
	}, cfg.Batch, observer("transaction"))
	cfg.Events.Subscribe(s)
	metrics.observe(s)
	return s
}

func (s *Store) handoffsOf(queueName, partition string) []queue.Handoff {
	if s.handoffs == nil {
		return nil
	}
	return s.handoffs.Handoffs(queueName, partition)
}

// Close answers the calls that were accepted and refuses new ones, until ctx ends.
func (s *Store) Close(ctx context.Context) error {
	return errors.Join(s.pushes.Close(ctx), s.acks.Close(ctx), s.claims.Close(ctx), s.transactions.Close(ctx), s.acks.CloseWaiting(ctx))
}
