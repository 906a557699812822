package dispatch

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/backoff"
	"github.com/belfry-mq/belfry/pkg/notify"
	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// sightWant is how many due partitions a look for consumers in SQL lists.
	sightWant = 200
	// freeWakes is how many times what is announced is looked at at once while they
	// wait, and wakePace how often after that: in a busy group each commit of others is
	// announced.
	freeWakes = 2
	wakePace  = 25 * time.Millisecond
	// firstHold is after how long they are told again of what was told in vain: a wake or
	// settlePage may have held it for a moment. The next times double it.
	firstHold = 5 * time.Millisecond
)

// vigil watches for all consumers in SQL that wait for the same.
type vigil struct {
	wish queue.SQLWaiter
	// asked has one when somebody asks who was not told since.
	asked chan struct{}

	// The rest is the goroutine's own. since is a ticket of what was announced since it
	// saw what it told of, at the instant told; vain counts how often there was something
	// to tell of again although nothing was announced.
	since *notify.Ticket[key]
	told  time.Time
	vain  int
}

// watch tells who asks, until nobody has asked for dispatch.fallback_interval, or ctx
// ends.
func (d *Dispatcher) watch(ctx context.Context, v *vigil) {
	defer v.forget()
	for {
		asked, ok := sleepUntil(ctx, time.Now().Add(d.cfg.FallbackInterval), v.asked)
		switch {
		case !ok:
			return
		case !asked:
			if d.wishes.retire(v) {
				return
			}
			continue
		case !d.keep(ctx, v):
			return
		}
		v.told = time.Now()
		select {
		case <-v.asked: // they listen, and hear it as well
		default:
		}
		d.tell(ctx, v.wish.Channel)
	}
}

func (v *vigil) forget() {
	if v.since != nil {
		v.since.Close()
		v.since = nil
	}
}

// announced says whether anything was since it told.
func (v *vigil) announced() bool {
	if v.since == nil {
		return true
	}
	select {
	case <-v.since.C():
		return true
	default:
		return false
	}
}

// hold returns when those who ask now may be told. What a look sees may be held by a
// consumer whose transaction is open, so that a pop finds nothing: if nothing was
// announced since they were told, they are told again ever later.
func (d *Dispatcher) hold(v *vigil) time.Time {
	if v.announced() {
		v.vain = 0
		return time.Time{}
	}
	v.vain++
	again := backoff.Policy{Initial: firstHold, Max: d.cfg.MaxPollInterval, Threshold: 1, Multiplier: 2}
	return v.told.Add(again.Delay(v.vain, rand.Float64()))
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
	wakes := 0
	for empties := 1; ; empties++ {
		looked := time.Now()
		ticket, seen := d.see(ctx, v, looked.Before(hold))
		if v.since != nil {
			if v.announced() { // before the ticket was there
				hold, v.vain = time.Time{}, 0
			}
			v.forget()
		}
		now := time.Now()
		next := over
		switch {
		case seen == sightSomething && !now.Before(hold):
			v.since = ticket
			return true
		case seen == sightSomething:
			next = hold
		case seen == sightUnsure || !d.proven():
			next = now.Add(d.policy.Delay(empties, rand.Float64()))
		}
		if next.After(over) {
			next = over
		}
		woken, ok := sleepUntil(ctx, next, ticket.C())
		ticket.Close()
		switch {
		case !ok:
			return false
		case woken:
			hold, empties, v.vain = time.Time{}, 0, 0
			if wakes++; wakes > freeWakes {
				if _, ok := sleepUntil(ctx, looked.Add(wakePace), nil); !ok {
					return false
				}
			}
		case !time.Now().Before(over):
			return true // nothing of all this: they look themselves
		}
	}
}

// sleepUntil waits for an instant, for wake (nil: never), or for the end of ctx, when ok
// is false.
func sleepUntil(ctx context.Context, at time.Time, wake <-chan struct{}) (woken, ok bool) {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false, false
	case <-wake:
		return true, true
	case <-timer.C:
		return false, true
	}
}

// see looks once, with the ticket of what it looks for. held: what it sees may not be
// told yet.
func (d *Dispatcher) see(ctx context.Context, v *vigil, held bool) (*notify.Ticket[key], sight) {
	select {
	case d.wishes.looking <- struct{}{}:
		defer func() { <-d.wishes.looking }()
	case <-ctx.Done():
		return d.notifier.Ticket(), sightUnsure
	}
	req := &queue.PopRequest{Queue: v.wish.Queue, Group: v.wish.Group, Partition: v.wish.Partition}
	target, registered, ok, err := d.store.Find(ctx, req)
	keys := birthKeys(req)
	if ok && registered {
		keys = []key{targetKey(target)}
	}
	ticket := d.notifier.Ticket(keys...)
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
	if until, known := d.facts.empty(targetKey(target), time.Now()); known && d.proven() {
		d.scheduleNext(target, until)
		return ticket, sightNothing
	}
	seen, err := d.settled(ctx, req, target, held)
	if err != nil {
		return ticket, d.unseen(ctx, v, err)
	}
	return ticket, seen
}

// settled looks, and settles what was left due with nothing behind it: no push announces
// it as long as it is due. It goes on as long as that brings something else to light. What
// is held is settled as well: it may be holes, or rest.
func (d *Dispatcher) settled(ctx context.Context, req *queue.PopRequest, target queue.Target, held bool) (sight, error) {
	tried := map[int64]bool{}
	for {
		seen, left, filled, err := d.sightOf(ctx, req, target)
		if err != nil || seen == sightSomething && !held {
			return seen, err
		}
		if held {
			left = append(left, filled...)
		}
		fresh := 0
		for _, partition := range left {
			if !tried[partition] {
				tried[partition] = true
				fresh++
			}
		}
		if fresh == 0 {
			return seen, nil
		}
		d.store.Settle(ctx, target.Group, left)
	}
}

// unseen says what becomes of a look that failed. One that will never succeed, since the
// database cannot hold such a name, is not made again.
func (d *Dispatcher) unseen(ctx context.Context, v *vigil, err error) sight {
	if ctx.Err() == nil && d.wishes.mayWarn() {
		d.log.Warn("a look for consumers in SQL failed",
			zap.String("queue", v.wish.Queue), zap.String("consumer_group", v.wish.Group), zap.Error(err))
	}
	var refused *queue.Error
	if errors.As(err, &refused) && refused.Code == queue.CodeInvalid {
		return sightNothing
	}
	return sightUnsure
}

// sightOf looks at target as belfry.pop does. left are the partitions that are due with
// nothing behind them, as consumers in SQL leave them, filled those with something.
func (d *Dispatcher) sightOf(ctx context.Context, req *queue.PopRequest, target queue.Target) (
	seen sight, left, filled []int64, err error,
) {
	f := d.facts.begin(targetKey(target))
	findings, err := d.store.Preflight(ctx, []queue.Probe{{Target: target, Want: sightWant}}, maxPreflightTimeout)
	if err != nil {
		return sightUnsure, nil, nil, err
	}
	if findings[0].Gone {
		d.store.Forget(req, target)
		return sightUnsure, nil, nil, nil
	}
	var next leftover
	paused, open := false, false
	for _, c := range findings[0].Candidates {
		switch {
		case c.In > 0:
			next.due(c.In)
		case c.Paused:
			paused = true
		case c.WindowOpen:
			open = true
		case c.Depth > 0:
			filled = append(filled, c.Partition)
		default:
			left = append(left, c.Partition)
		}
	}
	switch {
	case len(filled) > 0:
		seen = sightSomething
	case len(left) > 0, open:
		seen = sightUnsure // nobody announces the end of the window
	case !paused:
		d.learn(target, f, next.hasNext, next.in)
		return sightNothing, nil, nil, nil
	}
	d.facts.drop(targetKey(target))
	if next.hasNext {
		d.scheduleNext(target, time.Now().Add(next.in))
	}
	return seen, left, filled, nil
}
