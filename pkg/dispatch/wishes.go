package dispatch

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// maxWishes bounds what consumers in SQL wait for at a time.
	maxWishes = 10_000
	// warnGap is the least time between two warnings, however many wait.
	warnGap = time.Second
)

// wishes are what consumers in SQL wait for.
type wishes struct {
	mu sync.Mutex
	// m holds them by channel, and fresh those that nobody watches for yet.
	m     map[string]*vigil
	fresh []*vigil
	// signal has one when there are fresh ones, again when all are to ask again.
	signal, again chan struct{}
	// refused: one was refused, and all will be told to ask again.
	refused atomic.Bool
	// looking holds the right to look: many who are woken together leave room for others.
	looking chan struct{}
	// warned is when something was last warned of.
	warned time.Time
}

func newWishes() *wishes {
	return &wishes{
		m: map[string]*vigil{}, signal: make(chan struct{}, 1), again: make(chan struct{}, 1), looking: make(chan struct{}, 1),
	}
}

// add notes a wish; false: there are too many.
func (w *wishes) add(wish queue.SQLWaiter) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	v := w.m[wish.Channel]
	if v == nil {
		if len(w.m) == maxWishes {
			return false
		}
		v = &vigil{wish: wish, asked: make(chan struct{}, 1)}
		w.m[wish.Channel] = v
		w.fresh = append(w.fresh, v)
		raise(w.signal)
	}
	raise(v.asked)
	return true
}

// raise puts a signal into c, unless one is pending that covers this one as well.
func raise(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (w *wishes) take() []*vigil {
	w.mu.Lock()
	defer w.mu.Unlock()
	fresh := w.fresh
	w.fresh = nil
	return fresh
}

// retire drops a vigil, unless somebody has asked just now.
func (w *wishes) retire(v *vigil) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(v.asked) > 0 {
		return false
	}
	delete(w.m, v.wish.Channel)
	return true
}

// mayWarn says whether the latest warning is old enough.
func (w *wishes) mayWarn() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if now.Sub(w.warned) < warnGap {
		return false
	}
	w.warned = now
	return true
}

func (w *wishes) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.m)
}

// OnSQLWaiter starts to watch for a SQL waiter. The waiter is notified once, when there may be
// something to pop or after dispatch.fallback_interval.
func (d *Dispatcher) OnSQLWaiter(wish queue.SQLWaiter) {
	if d.wishes.add(wish) || !d.wishes.refused.CompareAndSwap(false, true) {
		return
	}
	d.log.Warn("consumers in SQL wait for too much at a time; those that are not heard are told to ask again later",
		zap.Int("limit", maxWishes), zap.Duration("later", d.cfg.FallbackInterval))
	time.AfterFunc(d.cfg.FallbackInterval, func() {
		d.wishes.refused.Store(false)
		d.OnListening()
	})
}

// OnListening asks all SQL waiters to announce themselves again, because an announcement may not
// have been heard.
func (d *Dispatcher) OnListening() { raise(d.wishes.again) }

// attend watches for what consumers in SQL wait for, until ctx ends or Stop is
// called. They are told by another instance then, or to ask again by the next one.
func (d *Dispatcher) attend(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	watching.Go(func() { d.tellAgain(ctx) })
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-d.stopping:
			return nil
		case <-d.wishes.signal:
			for _, v := range d.wishes.take() {
				watching.Go(func() { d.watch(ctx, v) })
			}
		}
	}
}

// tellAgain does what AskAgain says until ctx ends.
func (d *Dispatcher) tellAgain(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.wishes.again:
			d.tell(ctx, queue.AwaitAgainChannel)
		}
	}
}

// tell tries until it has told, or ctx ends.
func (d *Dispatcher) tell(ctx context.Context, channel string) {
	for failures := 1; ; failures++ {
		err := d.store.Tell(ctx, channel)
		if err == nil {
			d.metrics.told.Inc()
			return
		}
		if ctx.Err() == nil && d.wishes.mayWarn() {
			d.log.Warn("consumers in SQL could not be told; it will be tried again", zap.Error(err))
		}
		if _, ok := sleepUntil(ctx, time.Now().Add(d.policy.Delay(failures, rand.Float64())), nil); !ok {
			return
		}
	}
}
