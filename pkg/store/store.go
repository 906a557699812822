package store

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/batch"
	"github.com/belfry-mq/belfry/pkg/events"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/pkg/seal"
	"github.com/belfry-mq/belfry/sql"
)

// The statements, read once.
var (
	sqlAppend           = sql.Query("store/append")
	sqlOpenPartitions   = sql.Query("store/open_partitions")
	sqlFindPartitions   = sql.Query("store/find_partitions")
	sqlLife             = sql.Query("store/life")
	sqlWake             = sql.Query("store/wake")
	sqlHeal             = sql.Query("store/heal")
	sqlFindGroup        = sql.Query("store/find_group")
	sqlJoinGroup        = sql.Query("store/join_group")
	sqlGroupPartitions  = sql.Query("store/group_partitions")
	sqlMatchQueues      = sql.Query("store/match_queues")
	sqlClaim            = sql.Query("store/claim")
	sqlClaimWait        = sql.Query("store/claim_wait")
	sqlSettleLock       = sql.Query("store/settle_lock")
	sqlSettle           = sql.Query("store/settle")
	sqlAckLock          = sql.Query("store/ack_lock")
	sqlAckHeld          = sql.Query("store/ack_held")
	sqlAckFind          = sql.Query("store/ack_find")
	sqlTransactionLock  = sql.Query("store/transaction_lock")
	sqlAckApply         = sql.Query("store/ack_apply")
	sqlDeadLetterInsert = sql.Query("store/dead_letter_insert")
	sqlLeaseExtend      = sql.Query("store/lease_extend")
	sqlPreflight        = sql.Query("store/preflight")
	sqlLeaseRelease     = sql.Query("store/lease_release")
	sqlUnconsume        = sql.Query("store/unconsume")
	sqlQueueDepth       = sql.Query("store/queue_depth")
	sqlClock            = sql.Query("store/clock")
	sqlRedriveFind      = sql.Query("store/redrive_find")
	sqlRedriveSettle    = sql.Query("store/redrive_settle")
	sqlRedriveApply     = sql.Query("store/redrive_apply")
	sqlRedriveRestore   = sql.Query("store/redrive_restore")
	sqlInboxTake        = sql.Query("store/inbox_take")
	sqlSettleTold       = sql.Query("store/settle_told")
	sqlTell             = sql.Query("store/tell")
)

// Store runs the hot verbs. It is safe for concurrent use.
type Store struct {
	events.Nop
	pool      *postgres.Pool
	events    *events.Bus
	handoffs  Handoffs
	defaults  queue.Defaults
	log       *zap.Logger
	sealer    *seal.Sealer
	names     *names
	delivered *delivered
	joining   turnstile
	rooms     *rooms
	floors    *floors
	metrics   *Metrics
	// pushes, acks, leases and takes commit together what many callers do; a take
	// is a pop with autoAck.
	pushes *batch.Manager[*push]
	acks   *batch.Manager[*ack]
	leases *batch.Manager[*claim]
	takes  *batch.Manager[*claim]
	// transactions commit one by one; see newTransactions.
	transactions *batch.Manager[*transaction]
	// held are acks and transactions that wait by themselves; see newHeld.
	held        *batch.Manager[*heldCall]
	heldCursors heldCursors
	// urgent are connections for waiting pops that were woken; nil: those of
	// everybody.
	urgent *pgxpool.Pool
	// told are the cursors that consumers in SQL spoke of.
	told told
	// unsure are the leases of claims that were not answered.
	unsure unsure
	// heals and healed count the passes of Run and what they woke.
	heals, healed atomic.Int64
	// passed is when it was logged that pops by tags pass over a queue, in seconds.
	passed atomic.Int64
}

// Config is what a Store needs to know.
type Config struct {
	// Defaults are given to queues born by a push.
	Defaults queue.Defaults
	// Sealer may be nil: then queues with encryptionEnabled store in the clear.
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

// New returns a Store on pool. Close it after the last verb.
func New(pool *postgres.Pool, cfg Config, metrics *Metrics, log *zap.Logger) *Store {
	if cfg.Events == nil {
		cfg.Events = &events.Bus{}
	}
	if cfg.Handoffs == nil {
		cfg.Handoffs = noHandoffs{}
	}
	s := &Store{
		pool: pool, events: cfg.Events, handoffs: cfg.Handoffs, urgent: cfg.Urgent, defaults: cfg.Defaults, sealer: cfg.Sealer, log: log, metrics: metrics,
		names: newNames(), delivered: newDelivered(), rooms: newRooms(), floors: newFloors(), told: newTold(),
		heldCursors: newHeldCursors(),
	}
	s.events.Subscribe(s)
	s.pushes = batch.New(cfg.Batch, s.flushPushes, judge, metrics.of("push"))
	s.acks = batch.New(cfg.Batch, s.flushAcks, judge, metrics.of("ack"))
	s.leases = batch.New(cfg.Batch, s.flushClaims, judge, metrics.of("claim"))
	s.takes = batch.New(cfg.Batch, s.flushClaims, judge, metrics.of("take"))
	s.transactions = s.newTransactions(cfg.Batch, metrics)
	s.held = s.newHeld(cfg.Batch, metrics)
	metrics.observe(s)
	return s
}

// urgentBatch is batch on the connections of woken pops.
func (s *Store) urgentBatch(ctx context.Context, b *pgx.Batch, read func(pgx.BatchResults) error) error {
	pool := s.pool.Pool
	if s.urgent != nil {
		pool = s.urgent
	}
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	return s.runBatch(ctx, conn, b, read)
}

// batch sends b on one connection and hands its results to read in order. The
// statements of b may open a transaction: whatever happens, the connection
// leaves without one.
func (s *Store) batch(ctx context.Context, b *pgx.Batch, read func(pgx.BatchResults) error) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	return s.runBatch(ctx, conn, b, read)
}

// runBatch is batch on conn.
func (s *Store) runBatch(ctx context.Context, conn *pgxpool.Conn, b *pgx.Batch, read func(pgx.BatchResults) error) error {
	results := conn.SendBatch(ctx, b)
	err := read(results)
	if closing := results.Close(); err == nil {
		err = closing
	}
	if err != nil {
		rollback(ctx, conn)
	}
	return err
}

// rollback leaves conn outside a transaction. A connection that cannot even do
// that is broken, and the pool drops it on release.
func rollback(ctx context.Context, conn *pgxpool.Conn) {
	if !conn.Conn().IsClosed() && conn.Conn().PgConn().TxStatus() != 'I' {
		if _, err := conn.Exec(ctx, "ROLLBACK"); err != nil {
			// The error that led here is the one worth reporting.
			return
		}
	}
}

// skip reads a result whose rows are of no interest.
func skip(results pgx.BatchResults, what string) error {
	if _, err := results.Exec(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
