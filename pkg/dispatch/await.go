package dispatch

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/notify"
	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// maxWishes bounds what consumers in SQL wait for at a time.
	maxWishes = 10_000
	// sightWant is how many due partitions a look for one of them lists.
	sightWant = 50
)

// wishes are what consumers in SQL wait for.
type wishes struct {
	mu sync.Mutex
	// m holds them by channel, and fresh those that nobody watches for yet.
	m     map[string]*vigil
	fresh []*vigil
	// signal has one when there are fresh ones, again when all are to ask again.
	signal, again chan struct{}
}

func newWishes() *wishes {
	return &wishes{m: map[string]*vigil{}, signal: make(chan struct{}, 1), again: make(chan struct{}, 1)}
}

// add notes a wish; false: there are too many.
func (w *wishes) add(wish queue.Wish) bool {
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

// raise puts a signal into c; one stands for many.
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

func (w *wishes) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.m)
}

// Await hears what a consumer in SQL waits for. It is told, once, when there may be
// something, or after dispatch.fallback_interval. It does not block.
func (d *Dispatcher) Await(wish queue.Wish) {
	if !d.wishes.add(wish) {
		d.log.Warn("consumers in SQL wait for too much at a time; one of them is not told",
			zap.Int("limit", maxWishes), zap.String("queue", wish.Queue), zap.String("consumer_group", wish.Group))
	}
}

// AskAgain tells all consumers in SQL to ask again, since one may not have been
// heard. It does not block.
func (d *Dispatcher) AskAgain() { raise(d.wishes.again) }

// attend watches for what consumers in SQL wait for, until ctx ends or Stop is
// called. They are told by another instance then, or to ask again by the next one.
func (d *Dispatcher) attend(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
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
		case <-d.wishes.again:
			watching.Go(func() { d.tell(ctx, queue.AgainChannel) })
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
		if ctx.Err() == nil {
			d.log.Warn("consumers in SQL could not be told; it will be tried again", zap.Error(err))
		}
		retry := time.NewTimer(d.policy.Delay(failures, rand.Float64()))
		select {
		case <-ctx.Done():
			retry.Stop()
			return
		case <-retry.C:
		}
	}
}

// vigil watches for all consumers in SQL that wait for the same.
type vigil struct {
	wish queue.Wish
	// asked has one when somebody asks who was not told since.
	asked chan struct{}

	// The rest is the goroutine's own. keys are what woke it last; since is a ticket of
	// what was announced since it told, at the instant told; vain counts how often
	// there was something to tell of again although nothing was announced.
	keys  []key
	since *notify.Ticket[key]
	told  time.Time
	vain  int
}

// watch tells who asks, until nobody has asked for long.
func (d *Dispatcher) watch(ctx context.Context, v *vigil) {
	defer v.forget()
	for {
		idle := time.NewTimer(d.cfg.FallbackInterval)
		select {
		case <-ctx.Done():
			idle.Stop()
			return
		case <-idle.C:
			if d.wishes.retire(v) {
				return
			}
		case <-v.asked:
			idle.Stop()
			if !d.keep(ctx, v) {
				return
			}
			v.since, v.told = d.notifier.Ticket(v.keys...), time.Now()
			select {
			case <-v.asked: // they listen, and hear it as well
			default:
			}
			d.tell(ctx, v.wish.Channel)
		}
	}
}

func (v *vigil) forget() {
	if v.since != nil {
		v.since.Close()
		v.since = nil
	}
}

// hold returns when those who ask now may be told. What a look sees may be held by a
// consumer whose transaction is open, so that a pop finds nothing: if nothing was
// announced since they were told, they are told again ever later.
func (d *Dispatcher) hold(v *vigil) time.Time {
	if v.since == nil {
		return time.Time{}
	}
	defer v.forget()
	select {
	case <-v.since.C():
		v.vain = 0
		return time.Time{}
	default:
		v.vain++
		return v.told.Add(d.policy.Delay(v.vain, rand.Float64()))
	}
}

// sight is what a look for a consumer in SQL saw.
type sight int

const (
	// sightNothing: nothing until something is announced.
	sightNothing sight = iota
	// sightUnsure: it could not be seen; look again soon.
	sightUnsure
	// sightSomething: a pop would find something, unless somebody holds it.
	sightSomething
)

// keep waits until they are to be told; false: ctx ended.
func (d *Dispatcher) keep(ctx context.Context, v *vigil) bool {
	over := time.Now().Add(spread(d.cfg.FallbackInterval))
	hold := d.hold(v)
	for empties := 1; ; empties++ {
		ticket, seen := d.see(ctx, v, time.Now().Before(hold))
		now := time.Now()
		next := over
		switch {
		case seen == sightSomething && !now.Before(hold):
			ticket.Close()
			return true
		case seen == sightSomething:
			next = hold
		case seen == sightUnsure || !d.others.Proven():
			next = now.Add(d.policy.Delay(empties, rand.Float64()))
		}
		timer := time.NewTimer(min(next.Sub(now), over.Sub(now)))
		var woken, ended bool
		select {
		case <-ctx.Done():
			ended = true
		case <-ticket.C():
			woken = true
		case <-timer.C:
		}
		timer.Stop()
		ticket.Close()
		switch {
		case ended:
			return false
		case woken:
			hold, empties, v.vain = time.Time{}, 0, 0
		case !time.Now().Before(over):
			return true // nothing of all this: they look themselves
		}
	}
}

// see looks once, with the ticket of what it looks for. held: what it sees may not be
// told yet.
func (d *Dispatcher) see(ctx context.Context, v *vigil, held bool) (*notify.Ticket[key], sight) {
	req := &queue.PopRequest{Queue: v.wish.Queue, Group: v.wish.Group, Partition: v.wish.Partition}
	target, registered, ok, err := d.store.Find(ctx, req)
	v.keys = birthKeys(req)
	if ok && registered {
		v.keys = []key{targetKey(target)}
	}
	ticket := d.notifier.Ticket(v.keys...)
	switch {
	case err != nil:
		return ticket, d.unseen(ctx, v, err)
	case !ok:
		// It may have been born before the ticket was there.
		if _, _, ok, err = d.store.Find(ctx, req); err == nil && !ok {
			return ticket, sightNothing
		}
		return ticket, sightUnsure
	case !registered:
		return ticket, sightSomething // a pop registers it
	}
	if until, known := d.facts.empty(targetKey(target), time.Now()); known && d.others.Proven() {
		d.scheduleNext(target, until)
		return ticket, sightNothing
	}
	seen, left, err := d.sightOf(ctx, req, target)
	if len(left) > 0 && (held || seen != sightSomething) {
		// No push announces it as long as it is due, so it is put to sleep first.
		d.store.Settle(ctx, target.Group, left)
		seen, _, err = d.sightOf(ctx, req, target)
	}
	if err != nil {
		return ticket, d.unseen(ctx, v, err)
	}
	return ticket, seen
}

func (d *Dispatcher) unseen(ctx context.Context, v *vigil, err error) sight {
	if ctx.Err() == nil {
		d.log.Warn("a look for consumers in SQL failed; it will be made again",
			zap.String("queue", v.wish.Queue), zap.String("consumer_group", v.wish.Group), zap.Error(err))
	}
	return sightUnsure
}

// sightOf looks at target as belfry.pop does. left are the partitions that are due with
// nothing behind them, as consumers in SQL leave them.
func (d *Dispatcher) sightOf(ctx context.Context, req *queue.PopRequest, target queue.Target) (seen sight, left []int64, err error) {
	f := d.facts.begin(targetKey(target))
	findings, err := d.store.Preflight(ctx, []queue.Probe{{Target: target, Want: sightWant}}, maxPreflightTimeout)
	if err != nil {
		return sightUnsure, nil, err
	}
	if findings[0].Gone {
		d.store.Forget(req)
		return sightUnsure, nil, nil
	}
	var next leftover
	paused := false
	for _, c := range findings[0].Candidates {
		switch {
		case c.In > 0:
			next.due(c.In)
		case c.Paused:
			paused = true
		case c.Depth > 0:
			seen = sightSomething
		default:
			left = append(left, c.Partition)
		}
	}
	switch {
	case seen == sightSomething:
		d.facts.drop(targetKey(target))
		return seen, left, nil
	case len(left) > 0:
		d.facts.drop(targetKey(target))
		seen = sightUnsure
	case paused:
		d.facts.drop(targetKey(target)) // whoever resumes it announces it
	default:
		d.learn(target, f, next.hasNext, next.in)
		return sightNothing, nil, nil
	}
	if next.hasNext {
		d.scheduleNext(target, time.Now().Add(next.in))
	}
	return seen, left, nil
}
