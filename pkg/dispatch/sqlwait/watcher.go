package sqlwait

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/dispatch/readiness"
	"github.com/belfry-mq/belfry/pkg/process/backoff"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Store has the calls of the database that a Watcher needs.
type Store interface {
	// Find returns the target of a pop, and registers nothing. ok is false if the queue or partition does not exist. registered is
	// false if the group does not exist, or if it still joins the queue.
	Find(ctx context.Context, req *queue.PopRequest) (target queue.Target, registered, ok bool, err error)
	// Forget drops a resolved target that does not exist any more.
	Forget(req *queue.PopRequest, deleted queue.Target)
	// Preflight probes targets with one read-only query.
	Preflight(ctx context.Context, probes []queue.Probe, limit time.Duration) ([]queue.ProbeResult, error)
	// Settle clears the ready mark of drained cursors of a group.
	Settle(ctx context.Context, group int64, partitions []int64)
	// Tell notifies the SQL sessions that listen on channel.
	Tell(ctx context.Context, channel string) error
}

// Config are the delays of a Watcher.
type Config struct {
	// Fallback is the delay after which the Watcher notifies a channel even if no probe found messages.
	Fallback backoff.Policy
	// Backoff is the delay after a failed probe, or between probes while the listener is not proven. It is also the delay between
	// failed notifications.
	Backoff backoff.Policy
}

// Deps are the dependencies of a Watcher.
type Deps struct {
	Store Store
	// Readiness is shared with the dispatcher, which announces ready partitions to it.
	Readiness *readiness.Tracker
	Events    *events.Bus // announce the SQL waiters
	// Proven reports whether the notifications of other instances arrive.
	Proven     func() bool
	Registerer prometheus.Registerer
	Log        *zap.Logger
}

// warnGap is the minimum time between two warnings of all channels together.
const warnGap = time.Second

// Watcher watches for the SQL waiters of all channels. It is safe for concurrent use.
type Watcher struct {
	events.Nop
	Deps
	cfg      Config
	notified prometheus.Counter

	waiters *waiterSet
	// announceAgain holds one value if all waiters must be asked to announce themselves again.
	announceAgain chan struct{}
	// refused: a channel was refused, and all waiters will be asked to announce themselves again.
	refused atomic.Bool
	// probing holds one value during a probe, so that loops that wake together use only one connection.
	probing chan struct{}

	// warned is when the latest warning was logged, in nanoseconds since 1970.
	warned atomic.Int64
}

// New returns a Watcher and subscribes it to the events.
func New(deps Deps, cfg Config) *Watcher {
	w := &Watcher{
		Deps: deps, cfg: cfg,
		notified: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "belfry_dispatch_sql_told_total", Help: "Notifications to SQL waiters.",
		}),
		waiters: newWaiterSet(), announceAgain: make(chan struct{}, 1), probing: make(chan struct{}, 1),
	}
	deps.Registerer.MustRegister(w.notified, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "belfry_dispatch_sql_waiters", Help: "Channels on which SQL waiters announced themselves lately.",
	}, func() float64 { return float64(w.waiters.count()) }))
	deps.Events.Subscribe(w)
	return w
}

// Run runs the loops until ctx ends, then returns nil. Other instances then wake the waiters, and
// the next instance that starts asks them to announce themselves again.
func (w *Watcher) Run(ctx context.Context) error {
	var loops sync.WaitGroup
	defer loops.Wait()
	loops.Go(func() { w.runAnnounceAgain(ctx) })
	for {
		select {
		case <-ctx.Done():
			return nil
		case l := <-w.waiters.fresh:
			loops.Go(func() { w.runLoop(ctx, l) })
		}
	}
}

// OnSQLWaiter starts to watch for a SQL waiter. The waiter is notified once: when there may be
// something to pop, or after dispatch.fallback_interval.
func (w *Watcher) OnSQLWaiter(waiter queue.SQLWaiter) {
	if w.waiters.add(waiter) || !w.refused.CompareAndSwap(false, true) {
		return
	}
	w.Log.Warn("too many SQL waiters; the refused ones will be asked to announce themselves again",
		zap.Int("limit", maxChannels), zap.Duration("retry_after", w.cfg.Fallback.Max))
	time.AfterFunc(w.cfg.Fallback.Max, func() {
		w.refused.Store(false)
		w.OnListening()
	})
}

// OnListening asks all SQL waiters to announce themselves again, because an announcement may not
// have been heard.
func (w *Watcher) OnListening() { setSignal(w.announceAgain) }

func (w *Watcher) runAnnounceAgain(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.announceAgain:
			w.notify(ctx, queue.AwaitAgainChannel)
		}
	}
}

// notify sends a notification. It blocks and retries until a notification was sent, or ctx ends.
func (w *Watcher) notify(ctx context.Context, channel string) {
	for failures := 1; ; failures++ {
		err := w.Store.Tell(ctx, channel)
		if err == nil {
			w.notified.Inc()
			return
		}
		if ctx.Err() == nil && w.mayWarn() {
			w.Log.Warn("notifying SQL waiters failed; it will be retried", zap.String("channel", channel), zap.Error(err))
		}
		if backoff.Sleep(ctx, w.cfg.Backoff.Delay(failures, rand.Float64())) != nil {
			return
		}
	}
}

// mayWarn reports whether the last warning is at least warnGap ago.
func (w *Watcher) mayWarn() bool {
	last, now := w.warned.Load(), time.Now().UnixNano()
	return now-last >= int64(warnGap) && w.warned.CompareAndSwap(last, now)
}

const (
	// wakeInterval and wakeBurst limit the pace of the probes that wakes cause within one wait.
	wakeInterval, wakeBurst = 25 * time.Millisecond, 2
	// firstRepeatDelay is the delay of the second notification if nothing was announced since the first. It is short, because a
	// wake or a settle of the store may have locked the cursor only for a moment.
	firstRepeatDelay = 5 * time.Millisecond
)

// waiterLoop watches for the waiters of one channel.
type waiterLoop struct {
	waiter queue.SQLWaiter
	// announced holds one value if a waiter announced itself since the last notification.
	announced chan struct{}

	// Only the goroutine of the loop uses the fields below. sinceNotified is the ticket of the probe that led to the last
	// notification. It has woken if something was announced since that probe.
	sinceNotified *readiness.Ticket
	notifiedAt    time.Time
	// repeats counts the consecutive notifications without an announcement in between.
	repeats int
}

// runLoop notifies the channel once for each announcement of a waiter. It returns when ctx ends, or when no waiter announced
// itself for dispatch.fallback_interval.
func (w *Watcher) runLoop(ctx context.Context, l *waiterLoop) {
	defer l.closeTicket()
	for {
		announced, err := readiness.WaitUntil(ctx, time.Now().Add(w.cfg.Fallback.Max), l.announced)
		switch {
		case err != nil:
			return
		case !announced:
			if w.waiters.drop(l) {
				return
			}
			continue
		case !w.waitForReady(ctx, l):
			return
		}
		l.notifiedAt = time.Now()
		select {
		case <-l.announced: // a waiter that has announced itself listens already, and receives the notification
		default:
		}
		w.notify(ctx, l.waiter.Channel)
	}
}

func (l *waiterLoop) closeTicket() {
	if l.sinceNotified != nil {
		l.sinceNotified.Close()
		l.sinceNotified = nil
	}
}

// readySinceNotified reports whether something was announced since the last notification.
func (l *waiterLoop) readySinceNotified() bool {
	if l.sinceNotified == nil {
		return true
	}
	select {
	case <-l.sinceNotified.C():
		return true
	default:
		return false
	}
}

// nextNotification returns the earliest instant of the next notification. If nothing was announced since the last notification, a
// consumer may hold the messages in an open transaction. Then the delay grows with each notification.
func (w *Watcher) nextNotification(l *waiterLoop) time.Time {
	if l.readySinceNotified() {
		l.repeats = 0
		return time.Time{}
	}
	l.repeats++
	delay := backoff.Policy{Initial: firstRepeatDelay, Max: w.cfg.Backoff.Max, Threshold: 1, Multiplier: 2}
	return l.notifiedAt.Add(delay.Delay(l.repeats, rand.Float64()))
}

// waitForReady blocks until the waiters of the channel must be notified. It returns false if ctx ended.
func (w *Watcher) waitForReady(ctx context.Context, l *waiterLoop) bool {
	deadline := time.Now().Add(w.cfg.Fallback.Delay(1, rand.Float64()))
	notBefore := w.nextNotification(l)
	pace, wasWoken := backoff.Pace{Interval: wakeInterval, Burst: wakeBurst}, false
	for emptyProbes := 1; ; emptyProbes++ {
		ticket, result := w.probe(ctx, l.waiter, time.Now().Before(notBefore))
		if l.sinceNotified != nil {
			if l.readySinceNotified() { // before this probe took its ticket
				notBefore, l.repeats = time.Time{}, 0
			}
			l.closeTicket()
		}
		now := time.Now()
		next := deadline
		switch {
		case result == probeReady && !now.Before(notBefore):
			if wasWoken {
				w.Readiness.NotSpurious()
			}
			l.sinceNotified = ticket
			return true
		case result == probeReady:
			next = notBefore
		case result == probeUnknown || !w.Proven():
			next = now.Add(w.cfg.Backoff.Delay(emptyProbes, rand.Float64()))
		}
		if next.After(deadline) {
			next = deadline
		}
		woken, err := readiness.WaitUntil(ctx, next, ticket.C())
		ticket.Close()
		switch {
		case err != nil:
			return false
		case woken:
			wasWoken, notBefore, emptyProbes, l.repeats = true, time.Time{}, 0, 0
			if backoff.Sleep(ctx, time.Until(pace.Next(time.Now()))) != nil {
				return false
			}
		case !time.Now().Before(deadline):
			return true // the fallback interval is over, so the waiters must pop to check
		}
	}
}

// maxChannels bounds the channels that a Watcher watches.
const maxChannels = 10_000

// waiterSet holds the loops by channel.
type waiterSet struct {
	mu sync.Mutex
	m  map[string]*waiterLoop
	// fresh has the loops that do not run yet. It has room for all loops.
	fresh chan *waiterLoop
}

func newWaiterSet() *waiterSet {
	return &waiterSet{m: map[string]*waiterLoop{}, fresh: make(chan *waiterLoop, maxChannels)}
}

// add notes that a waiter announced itself. It returns false if there are too many channels.
func (s *waiterSet) add(waiter queue.SQLWaiter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.m[waiter.Channel]
	if l == nil {
		if len(s.m) == maxChannels {
			return false
		}
		l = &waiterLoop{waiter: waiter, announced: make(chan struct{}, 1)}
		s.m[waiter.Channel] = l
		s.fresh <- l
	}
	setSignal(l.announced)
	return true
}

// setSignal sends a value. It does nothing if a value is pending.
func setSignal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// drop removes a loop. It returns false if a waiter has just announced itself.
func (s *waiterSet) drop(l *waiterLoop) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(l.announced) > 0 {
		return false
	}
	delete(s.m, l.waiter.Channel)
	return true
}

func (s *waiterSet) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.m)
}
