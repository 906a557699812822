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
	// Connections is the number of connections of Deps.SequencerPool that a Sequencer uses at the same
	// time: one holds the leader lock and moves rows, and one reads rows. sleepConn does not count,
	// because it is removed from the pool.
	Connections = 2

	// scanInterval is the minimum time between the starts of two scans under load. So one
	// transaction of the sequencer moves the rows of several commits.
	scanInterval = 25 * time.Millisecond
	// linger is the time that the sequencer stays awake after the last batch of rows. Going to
	// sleep and waking up costs about as many statements as the scans in this time.
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
	// MaxPayload is the maximum size of a payload, in bytes.
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
	// wake holds a signal if rows may wait.
	wake events.Signal
	// notifications counts the notifications since the last scan began.
	notifications atomic.Int64
	// fullScan makes the next scan read all rows.
	fullScan atomic.Bool
	// leading tells other goroutines whether conn is set.
	leading atomic.Bool

	// Only Run uses the fields below.

	// conn is the session with the leader lock. It is nil on standby.
	conn *pgxpool.Conn
	// scanned is a snapshot. All its rows are moved or rejected. At fullScanAt, the next scan
	// ignores scanned and reads all rows.
	scanned    string
	fullScanAt time.Time
	// failures is the number of consecutive failures.
	failures int
	// lastBatch is the time of the last scan that found more than one row. The sequencer stays awake
	// for linger after this time.
	lastBatch time.Time
	// linger and stalledAfter have the values of the constants. Tests change them.
	linger, stalledAfter time.Duration
	standby
	sleepState
}

// Deps are the dependencies of a Sequencer.
type Deps struct {
	// Pool runs the queries of Counts and Holder. A new sequencer reports a broken connection to
	// Pool, which causes a heal.
	Pool *postgres.Pool
	// SequencerPool is used only by the Sequencer. It has Connections connections, without a pooler
	// between.
	SequencerPool *postgres.Pool
	Appender      Appender
	// Events publishes notifications of the inbox and resyncs.
	Events *events.Bus
	// Proven reports whether the listener is proven (docs/design.md).
	Proven func() bool
	// OnLeading is called when this instance becomes the sequencer, and when it stops being the sequencer. It
	// must not block.
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

// OnInbox records that rows may wait in the inbox. It never blocks.
func (s *Sequencer) OnInbox() {
	s.notifications.Add(1)
	s.wake.Set()
}

// OnResync requests a full scan. Before a resync, notifications may have been lost. Or the database
// was replaced: then transaction ids can occur again, and the snapshot in scanned is useless.
func (s *Sequencer) OnResync(string, events.Origin) {
	s.fullScan.Store(true)
	s.OnInbox()
}

// Run moves rows until ctx ends, or is on standby while another instance is the sequencer. It
// returns nil. It logs failures and tries again.
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

// step does one step as the sequencer or on standby. It returns the time until the next step. A
// notification makes the next step begin earlier.
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
