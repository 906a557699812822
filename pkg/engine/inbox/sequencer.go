package inbox

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/process/backoff"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// Connections is how many connections of Deps.SequencerPool a Sequencer uses at a time: one holds the
	// leader lock and moves rows, one reads them. sleepConn is taken out of the pool.
	Connections = 2

	// scanInterval is the least time between the starts of two scans under load, so that several
	// commits share a transaction.
	scanInterval = 25 * time.Millisecond
	// linger is how long the sequencer stays awake after the last batch of rows. To sleep and wake
	// again costs about as many statements as the five scans that fit into it.
	linger = 100 * time.Millisecond
)

// retryPolicy is the pause after a failure. One sequencer retries, so it needs no jitter.
var retryPolicy = backoff.Policy{Initial: 50 * time.Millisecond, Max: 500 * time.Millisecond, Threshold: 1, Multiplier: 2}

// Appender stores messages and deletes their inbox rows in one transaction on conn.
type Appender interface {
	Sequence(ctx context.Context, conn *pgxpool.Conn, ids []int64, items []queue.PushItem) ([]queue.SequenceResult, error)
}

// Config is the configuration of a Sequencer.
type Config struct {
	// MaxPayload is the size in bytes of the largest payload that is sequenced.
	MaxPayload int64
	// AllowAnyJSON accepts payloads that some clients cannot read; see pkg/engine/portable.
	AllowAnyJSON bool
	// FallbackInterval is the time between two full scans.
	FallbackInterval time.Duration
	// PollInterval is the time between two scans while the listener is not proven.
	PollInterval time.Duration
}

// Sequencer moves rows of the inbox into their partitions. Its methods may be called from several
// goroutines.
type Sequencer struct {
	events.Nop
	Deps
	cfg Config
	// wake holds at most one signal: rows may wait.
	wake events.Signal
	// notifications counts the notifications since the last scan began.
	notifications atomic.Int64
	// fullScan makes the next scan read all rows.
	fullScan atomic.Bool
	// leading reports to other goroutines that conn is not nil.
	leading atomic.Bool

	// Only Run uses the fields below.

	// conn is the session with the leader lock. It is nil on standby.
	conn *pgxpool.Conn
	// scanned is a snapshot. All rows in it are handled. From fullScanAt on, it is not used.
	scanned    string
	fullScanAt time.Time
	// failures is the number of consecutive failures.
	failures int
	// lastBatch is when a scan last found more than one row. Under such load the sequencer is awake.
	// Single rows are notified and moved at once.
	lastBatch time.Time
	// linger and stalledAfter are the constants. Tests change them.
	linger, stalledAfter time.Duration
	standby
	sleepState
}

// Deps are the dependencies of a Sequencer.
type Deps struct {
	// Pool runs the queries of Counts and Holder. It records that a heal is needed.
	Pool *postgres.Pool
	// SequencerPool is a pool of Connections connections directly to Postgres, for the Sequencer alone.
	SequencerPool *postgres.Pool
	Appender      Appender
	// Events publishes notifications of the inbox and resyncs.
	Events *events.Bus
	// Proven reports whether notifications arrive in time.
	Proven func() bool
	// OnLeading is called when this instance has become the sequencer, or stopped being it. It must not block.
	OnLeading func(leading bool)
	Metrics   *Metrics
	Log       *zap.Logger
}

// New returns a Sequencer. Run does its work.
func New(deps Deps, cfg Config) *Sequencer {
	s := &Sequencer{
		Deps: deps, cfg: cfg, wake: events.NewSignal(), scanned: emptySnapshot, linger: linger, stalledAfter: stalledAfter,
	}
	deps.Events.Subscribe(s)
	return s
}

// OnInbox notes that rows may wait in the inbox. It never blocks.
func (s *Sequencer) OnInbox() {
	s.notifications.Add(1)
	s.wake.Set()
}

// OnResync requests a full scan. Notifications may be lost, or the database may be replaced: a
// standby that was promoted may assign transaction ids again.
func (s *Sequencer) OnResync(string, events.Origin) {
	s.fullScan.Store(true)
	s.OnInbox()
}

// Run sequences, or is on standby while another instance sequences, until ctx ends. It returns nil.
// A failure is logged and retried.
func (s *Sequencer) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	defer s.resign(ctx)
	for {
		wake := s.wake
		if s.watching || s.awake || s.failures > 0 {
			wake = nil // the timer fires soon
		}
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
		case err := <-s.sleepResult:
			s.finishSleep(err)
		case <-timer.C:
		}
		began := time.Now()
		s.notifications.Store(0)
		next, err := s.step(ctx)
		if s.notifications.Load() > 1 && !s.awake {
			_ = backoff.Sleep(ctx, scanInterval-time.Since(began)) // ctx is checked below
		}
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			s.failures = 0
		} else {
			s.failures++
			next = retryPolicy.Delay(s.failures, 0)
			s.handleFailure(err, next)
		}
		timer.Reset(next)
	}
}

func (s *Sequencer) handleFailure(err error, next time.Duration) {
	s.Metrics.failures.Inc()
	level := s.Log.Warn
	if s.failures > 1 {
		level = s.Log.Debug // only the first of several failures is a warning
	}
	level("sequencing the inbox failed; it will be tried again", zap.Duration("after", next), zap.Error(err))
	if s.conn != nil && s.conn.Conn().IsClosed() {
		s.dropLeadership()
	}
}

// step does one round of work. It returns the time until the next step, unless a notification comes
// first.
func (s *Sequencer) step(ctx context.Context) (next time.Duration, err error) {
	if s.conn == nil {
		leading, err := s.tryLead(ctx)
		if err != nil {
			return 0, err
		}
		if !leading {
			return s.watch(ctx)
		}
	}
	return s.lead(ctx)
}

// idleInterval is the time until the next step of an instance that has nothing to do.
func (s *Sequencer) idleInterval() time.Duration {
	if s.Proven() {
		return s.cfg.FallbackInterval
	}
	return min(s.cfg.PollInterval, s.cfg.FallbackInterval)
}
