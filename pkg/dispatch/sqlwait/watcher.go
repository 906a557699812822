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

// Store is what a Watcher needs of the database.
type Store interface {
	// Find returns what a pop claims from, and registers nothing. ok is false if the queue or
	// partition does not exist, registered is false if the group does not.
	Find(ctx context.Context, req *queue.PopRequest) (target queue.Target, registered, ok bool, err error)
	// Forget drops a resolved target that is gone.
	Forget(req *queue.PopRequest, gone queue.Target)
	// Preflight probes targets with one read-only query.
	Preflight(ctx context.Context, probes []queue.Probe, limit time.Duration) ([]queue.ProbeResult, error)
	// Settle clears the ready mark of drained cursors of a group.
	Settle(ctx context.Context, group int64, partitions []int64)
	// Tell notifies the SQL sessions that listen on channel.
	Tell(ctx context.Context, channel string) error
}

// Config are the delays of a Watcher.
type Config struct {
	// Fallback is the delay after which a channel is notified in any case.
	Fallback backoff.Policy
	// Backoff is the delay between probes that failed, or that were made while the listener is not
	// proven. It is also the delay between failed notifications.
	Backoff backoff.Policy
}

// Deps are what a Watcher works with.
type Deps struct {
	Store Store
	// Readiness is shared with the dispatcher, which announces to it.
	Readiness *readiness.Tracker
	Events    *events.Bus // bring the SQL waiters
	// Proven reports whether the notifications of other instances arrive.
	Proven     func() bool
	Registerer prometheus.Registerer
	Log        *zap.Logger
}

// warnGap is the least time between two warnings, over all channels.
const warnGap = time.Second

// Watcher watches for the SQL waiters of all channels. It is safe for concurrent use.
type Watcher struct {
	events.Nop
	Deps
	cfg      Config
	notified prometheus.Counter

	waiters *waiterSet
	// announceAgain holds one value if all waiters are to announce themselves again.
	announceAgain chan struct{}
	// refused: a channel was refused, and all waiters will be asked to announce themselves again.
	refused atomic.Bool
	// probing is held during a probe, so that many loops that wake together leave connections to
	// others.
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

// notify sends a notification. It blocks and retries until one was sent, or ctx ends.
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
