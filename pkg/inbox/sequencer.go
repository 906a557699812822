package inbox

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/events"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlLook     = sql.Query("inbox/look")
	sqlFirst    = sql.Query("inbox/first")
	sqlReject   = sql.Query("inbox/reject")
	sqlReadable = sql.Query("inbox/readable")
	sqlLock     = sql.Query("inbox/lock")
	sqlUnlock   = sql.Query("inbox/unlock")
	sqlResign   = sql.Query("inbox/resign")
	sqlMark     = sql.Query("inbox/mark")
	sqlPatience = sql.Query("inbox/patience")
	sqlSleep    = sql.Query("inbox/sleep")
	sqlWithdraw = sql.Query("inbox/withdraw")
	sqlWatch    = sql.Query("inbox/watch")
	sqlWake     = sql.Query("inbox/wake")
	sqlDepose   = sql.Query("inbox/depose")
	sqlHolder   = sql.Query("inbox/holder")
	sqlCounts   = sql.Query("inbox/counts")
)

const (
	// lockClass and lockID name the advisory lock of the sequencer: "BELF", 7.
	lockClass int32 = 0x42454c46
	lockID    int32 = 7
	// sleepID is the lock that producers share from the insert to the end of their
	// transaction when they leave out the notification; the sequencer asks for it
	// when it goes to sleep, and has it while it sleeps.
	sleepID int32 = 8
	// markID is the lock that the sequencer has while there may be such producers.
	markID int32 = 9
	// awakeID is the lock that the sequencer has while there may be new ones.
	awakeID int32 = 10

	// Connections is how many connections a sequencer shares out: one that has the
	// lock and moves rows, and one that reads them. The one that goes to sleep is
	// taken out of their pool.
	Connections = 2

	// leastRetry and mostRetry bound the pause after a failure.
	leastRetry = 50 * time.Millisecond
	mostRetry  = 500 * time.Millisecond
	// pace is the least time between the beginnings of two looks while transactions
	// commit one after the other: what commits meanwhile is moved together.
	pace = 25 * time.Millisecond
	// linger is how long it stays awake after rows that came together. To fall asleep and be
	// woken takes about as many statements as the five looks that fit into it.
	linger = 100 * time.Millisecond
	// resignTimeout bounds telling the others that this instance stops.
	resignTimeout = 2 * time.Second
)

// Appender stores messages and removes the rows they came from, in one transaction
// on conn.
type Appender interface {
	Sequence(ctx context.Context, conn *pgxpool.Conn, ids []int64, items []queue.PushItem) ([]queue.SequenceResult, error)
}

// Config is what a Sequencer needs to know.
type Config struct {
	// MaxPayload is the size in bytes of the largest payload that is sequenced.
	MaxPayload int64
	// FallbackInterval is how long rows that nobody announced may lie.
	FallbackInterval time.Duration
	// PollInterval is the same while announcements are not heard.
	PollInterval time.Duration
}

// Sequencer moves rows of the inbox into their partitions. Its methods may be
// called from several goroutines.
type Sequencer struct {
	events.Nop
	pool, own *postgres.Pool
	appender  Appender
	// proven says whether announcements are heard.
	proven  func() bool
	cfg     Config
	metrics *Metrics
	log     *zap.Logger
	// woken has room for one: rows may wait.
	woken chan struct{}
	// heard counts what was announced since the last look.
	heard atomic.Int64
	// doubt: the next look must read everything.
	doubt atomic.Bool
	// leading: conn is not nil; for those who ask from outside.
	leading atomic.Bool

	// What follows belongs to Run.

	// conn has the lock; nil: this instance is not the sequencer.
	conn *pgxpool.Conn
	// seen is the snapshot of which all rows have been dealt with, and full the
	// instant from which on it does not count.
	seen string
	full time.Time
	// watching: another instance is the sequencer and should be at work, or has the
	// mark; head is the first row that waited at the last look, 0 before it.
	watching bool
	head     int64
	// since is when head was seen first, told when it was told who has the lock.
	since, told time.Time
	// calm: the last look found no row and nobody with the mark.
	calm bool
	// failures are those in a row.
	failures int
	// busy is when more than one row was moved last: one alone had better be
	// announced, and seen at once.
	busy time.Time
	// linger and stalled are the constants, but in tests.
	linger, stalled time.Duration
	sleep
}

// Deps are what a Sequencer works with.
type Deps struct {
	// Pool is for what is not the work of the sequencer; it is told when something may need healing.
	Pool *postgres.Pool
	// Own holds Connections connections that lead directly to Postgres, for the Sequencer alone.
	Own      *postgres.Pool
	Appender Appender
	// Events tell the Sequencer that rows wait in the inbox.
	Events *events.Bus
	// Proven says whether OnInbox is called in time.
	Proven  func() bool
	Metrics *Metrics
	Log     *zap.Logger
}

// New returns a Sequencer. Run does its work.
func New(deps Deps, cfg Config) *Sequencer {
	s := &Sequencer{
		pool: deps.Pool, own: deps.Own, appender: deps.Appender, proven: deps.Proven, cfg: cfg, metrics: deps.Metrics, log: deps.Log,
		woken: make(chan struct{}, 1), seen: nothing, linger: linger, stalled: stalledAfter,
	}
	deps.Events.Subscribe(s)
	return s
}

// OnInbox notes that rows may wait in the inbox. It never blocks.
func (s *Sequencer) OnInbox() {
	s.heard.Add(1)
	select {
	case s.woken <- struct{}{}:
	default: // one is pending already and covers this one
	}
}

// OnResync notes that announcements may have been missed, or that the database was replaced: one
// that failed over may give out transaction numbers again.
func (s *Sequencer) OnResync(string, events.Origin) {
	s.doubt.Store(true)
	s.OnInbox()
}

// Run sequences, or stands by while another instance does, until ctx ends; it
// returns nil. What fails is logged and tried again.
func (s *Sequencer) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	defer s.resign(ctx)
	for {
		woken := s.woken
		if s.watching || s.awake || s.failures > 0 {
			woken = nil // the timer is near
		}
		select {
		case <-ctx.Done():
			return nil
		case <-woken:
		case err := <-s.asked:
			s.settle(err)
		case <-timer.C:
		}
		began := time.Now()
		s.heard.Store(0)
		next, err := s.turn(ctx)
		if s.heard.Load() > 1 && !s.awake {
			hold(ctx, pace-time.Since(began))
		}
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			s.failures = 0
		} else {
			next = min(leastRetry<<min(s.failures, 10), mostRetry)
			s.failures++
			s.failed(err, next)
		}
		timer.Reset(next)
	}
}

// hold waits, until ctx ends.
func hold(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (s *Sequencer) failed(err error, next time.Duration) {
	s.metrics.failures.Inc()
	level := s.log.Warn
	if s.failures > 1 {
		level = s.log.Debug // it has been said
	}
	level("sequencing the inbox failed; it will be tried again", zap.Duration("after", next), zap.Error(err))
	if s.conn != nil && s.conn.Conn().IsClosed() {
		s.drop()
	}
}

// turn does what there is to do, and returns after how long to look unasked.
func (s *Sequencer) turn(ctx context.Context) (next time.Duration, err error) {
	if s.conn == nil {
		leading, err := s.lead(ctx)
		if err != nil {
			return 0, err
		}
		if !leading {
			return s.watch(ctx)
		}
	}
	return s.work(ctx)
}

// idle is how long to do nothing unless woken.
func (s *Sequencer) idle() time.Duration {
	if s.proven() {
		return s.cfg.FallbackInterval
	}
	return min(s.cfg.PollInterval, s.cfg.FallbackInterval)
}

// lead becomes the sequencer if nobody is.
func (s *Sequencer) lead(ctx context.Context) (bool, error) {
	ctx, cancel := s.own.Bounded(ctx)
	defer cancel()
	conn, err := s.own.Acquire(ctx)
	if err != nil {
		return false, fmt.Errorf("connecting: %w", err)
	}
	var locked bool
	if err := conn.QueryRow(ctx, sqlLock, lockClass, lockID).Scan(&locked); err != nil {
		_ = conn.Conn().Close(ctx) // it may have the lock
		conn.Release()
		return false, fmt.Errorf("taking the lock: %w", err)
	}
	if !locked {
		conn.Release()
		return false, nil
	}
	s.conn, s.watching, s.head, s.seen = conn, false, 0, nothing
	if err := AdvanceIDs(ctx, conn, s.log); err != nil {
		s.forsake()
		return false, err
	}
	// Whoever was it before may have left producers behind that announce nothing.
	if err := s.mark(ctx); err != nil {
		s.forsake()
		return false, err
	}
	s.metrics.takeovers.Inc()
	s.metrics.leading.Set(1)
	s.leading.Store(true)
	// Whoever was it before may have died between a commit and its wake, or between that
	// and telling of it: then what is awake was heard of by nobody.
	s.pool.ReportBrokenConnection()
	s.log.Info("this instance sequences the inbox")
	return true, nil
}

// drop lets go of a connection that broke, and with it of the lock.
func (s *Sequencer) drop() {
	s.leaveBed()
	s.marked, s.awake = false, false
	s.conn.Release()
	s.conn = nil
	s.metrics.leading.Set(0)
	s.leading.Store(false)
}

// forsake ends the session with the lock: what it has is not known.
func (s *Sequencer) forsake() {
	ctx, cancel := context.WithTimeout(context.Background(), resignTimeout)
	defer cancel()
	_ = s.conn.Conn().Close(ctx)
	s.drop()
}

// resign lets another instance take over at once.
func (s *Sequencer) resign(ctx context.Context) {
	if s.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resignTimeout)
	defer cancel()
	if _, err := s.conn.Exec(ctx, sqlResign); err != nil {
		s.log.Debug("the sequencer could not take its leave; others will notice", zap.Error(err))
	}
	_ = s.conn.Conn().Close(ctx) // whatever it said, the lock ends with the session
	s.drop()
}
