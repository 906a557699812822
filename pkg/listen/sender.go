package listen

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/backoff"
	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// sendTimeout bounds one statement; beyond it the connection counts as broken
	// and the flush is sent again over another one.
	sendTimeout = 3 * time.Second
	// maxSendDelay caps the delay between flushes that fail.
	maxSendDelay = time.Second
)

// notifyStatement sends each text of $2 on channel $1. A notifying commit holds a
// lock of the whole cluster until it is done, so it must wait for no disk and no
// standby; it has nothing to lose there. The setting is made for this one
// transaction and not for the session, which a pooler could hand to somebody whose
// commits matter.
//
// It tells whether what it was sent to may only be read.
const notifyStatement = `SELECT pg_notify($1, payload)::text, current_setting('transaction_read_only') = 'on'
FROM set_config('synchronous_commit', 'off', true), unnest($2::text[]) AS payload`

var errReadOnly = errors.New("the database may only be read: is another one the primary now?")

// SenderStats counts since the start.
type SenderStats struct {
	// Flushes is how many notifying commits succeeded, and Failures how many
	// attempts did not.
	Flushes, Failures int64
	// EntriesIn is how many entries were given to Send, and EntriesOut how many
	// were sent in their place. The first divided by the second is the coalescing
	// ratio.
	EntriesIn, EntriesOut int64
}

// Sender tells other instances what this one has done. Its methods may be called
// from several goroutines.
type Sender struct {
	instance queue.ID
	cfg      Config
	log      *zap.Logger
	retry    backoff.Policy
	// notify sends payloads in one commit. An error means that they may or may not
	// have been sent.
	notify func(ctx context.Context, payloads []string) error
	// readOnly is called when Postgres may only be read; Run only.
	readOnly func()

	config *pgx.ConnConfig
	line   *line // nil when there is none; Run only

	mu      sync.Mutex
	pending marks
	wake    chan struct{} // has one when something is pending and Run may not know

	// beaten holds the number of the latest canary that was sent, until the
	// listener takes it.
	beaten chan uint64
	// announced: the others have heard of this instance; Run only.
	announced bool

	flushes, failures, entriesIn, entriesOut atomic.Int64
}

// NewSender returns a Sender for the database at url, which should lead directly
// to Postgres. instance is this process; see Sender.Instance. It does not connect.
// An error means that url cannot be read.
func NewSender(url string, instance queue.ID, cfg Config, log *zap.Logger) (*Sender, error) {
	config, err := parse(url, "belfry-notify")
	if err != nil {
		return nil, fmt.Errorf("reading the URL for notifications: %w", err)
	}
	s := newSender(instance, cfg, log)
	s.config, s.notify = config, s.exec
	return s, nil
}

func newSender(instance queue.ID, cfg Config, log *zap.Logger) *Sender {
	return &Sender{
		instance: instance, cfg: cfg, log: log, readOnly: func() {}, wake: make(chan struct{}, 1), beaten: make(chan uint64, 1),
		retry: backoff.Policy{Initial: cfg.NotifyInterval, Max: max(maxSendDelay, cfg.NotifyInterval), Threshold: 1, Multiplier: 2},
	}
}

// OnReadOnly has call called when the Postgres that this sender talks to may only be
// read from now on: perhaps another one has been promoted in its place. The sender then
// connects anew. call must not block. Call it before Run.
func (s *Sender) OnReadOnly(call func()) { s.readOnly = call }

// Instance is the id under which the other instances know this one.
func (s *Sender) Instance() queue.ID { return s.instance }

// Stats returns the counters.
func (s *Sender) Stats() SenderStats {
	return SenderStats{
		Flushes: s.flushes.Load(), Failures: s.failures.Load(),
		EntriesIn: s.entriesIn.Load(), EntriesOut: s.entriesOut.Load(),
	}
}

// Send marks entries to be sent, and returns at once. Call it after the commit
// that they are about. It may be called before Run; what is marked after Run has
// ended is not sent.
func (s *Sender) Send(entries ...Entry) {
	if len(entries) == 0 {
		return
	}
	s.entriesIn.Add(int64(len(entries)))
	s.mark(func(m *marks) {
		for _, e := range entries {
			m.add(e)
		}
	})
}

// beat marks a canary. Its number comes out of beaten after its commit, unless a
// later one does.
func (s *Sender) beat(number uint64) {
	s.mark(func(m *marks) { m.canary = max(m.canary, number) })
}

func (s *Sender) mark(change func(*marks)) {
	s.mu.Lock()
	change(&s.pending)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default: // the one in there will make Run see these too
	}
}

// Run sends what is marked until ctx ends: the first entry at once, those that
// come within notify_interval together. A flush that fails, or whose outcome is
// unknown, is sent again. When ctx ends, what is marked is sent together with a
// goodbye, within stop_timeout; when that fails it is logged, and the others
// notice by our silence. Run always returns nil, and must be called only once.
func (s *Sender) Run(ctx context.Context) error {
	// Two contexts: ctx says stop taking, work says stop doing.
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(s.cfg.StopTimeout, stop) })()
	defer func() {
		if s.line != nil {
			s.line.close(work)
		}
	}()
	var started time.Time
	failed := 0
	for {
		select {
		case <-ctx.Done():
			s.finish(work)
			return nil
		case <-s.wake:
		}
		gap := s.cfg.NotifyInterval - time.Since(started)
		if failed > 0 {
			gap = s.retry.Delay(failed, rand.Float64())
		}
		if !pause(ctx, gap) {
			s.finish(work)
			return nil
		}
		started = time.Now()
		failed = s.judge(failed, s.flush(work))
	}
}

// finish is the last flush.
func (s *Sender) finish(work context.Context) {
	if s.announced {
		s.mark(func(m *marks) { m.bye = true })
	}
	for failed := 1; ; failed++ {
		err := s.flush(work)
		if err == nil {
			return
		}
		if !pause(work, s.retry.Delay(failed, rand.Float64())) {
			s.log.Warn("the last notifications were not sent; other instances will notice by our silence", zap.Error(err))
			return
		}
	}
}

// judge logs the turns from success to failure and back, and returns how many
// flushes in a row have failed.
func (s *Sender) judge(failed int, err error) int {
	switch {
	case err != nil && failed == 0:
		s.log.Warn("notifications to other instances cannot be sent; they are kept and sent again", zap.Error(err))
		return 1
	case err != nil:
		return failed + 1
	case failed > 0:
		s.log.Info("notifications to other instances are sent again", zap.Int("failed_flushes", failed))
	}
	return 0
}

// flush sends what is pending. After an error all of it is pending again.
func (s *Sender) flush(ctx context.Context) error {
	s.mu.Lock()
	batch := s.pending
	s.pending = marks{}
	s.mu.Unlock()
	if batch.empty() {
		return nil
	}
	payloads, entries := batch.payloads(s.instance)
	if err := s.notify(ctx, payloads); err != nil {
		s.failures.Add(1)
		s.mark(func(m *marks) {
			batch.merge(m)
			*m = batch
		})
		return fmt.Errorf("sending %d notifications: %w", len(payloads), err)
	}
	s.flushes.Add(1)
	s.entriesOut.Add(entries)
	if batch.canary > 0 {
		s.announced = true
		select {
		case <-s.beaten: // an older one that nobody has taken
		default:
		}
		s.beaten <- batch.canary // only Run puts one in, so there is room
	}
	return nil
}

// exec sends payloads over the sender's own connection and gives the connection
// up when that fails.
func (s *Sender) exec(ctx context.Context, payloads []string) (err error) {
	if s.line == nil {
		if s.line, err = openLine(ctx, s.config); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	var readOnly bool
	rows, err := s.line.Query(ctx, notifyStatement, Channel, payloads)
	if err == nil {
		_, err = pgx.ForEachRow(rows, []any{nil, &readOnly}, func() error { return nil })
	}
	if err == nil && readOnly {
		s.readOnly()
		err = errReadOnly
	}
	if err != nil {
		s.line.drop(ctx)
		s.line = nil
	}
	return err
}

// pause waits. It returns false, at once, when ctx ends.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
