package dispatch

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/belfry-mq/belfry/pkg/notify"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// intent is one waiting pop request. Its handler's goroutine owns it; rounds
// read what does not change while they hold its ask.
type intent struct {
	ctx      context.Context
	req      *queue.PopRequest
	since    time.Time
	deadline time.Time
	// looked: the first look of its own is behind it, or was not needed.
	looked bool
	// empties are the looks in vain of one that waits for no group in
	// particular; those of a group are counted in backoffs.
	empties int
	// counted is what it is counted for among the intents, which own it.
	counted queue.Target
	// watched are the groups a pop by tags waits for.
	watched []int64
	// target is what it waits for, zero when that does not exist, and ticket what wakes
	// it, taken at armed.
	target queue.Target
	ticket *notify.Ticket[key]
	armed  time.Time

	// rest is what it does, and vain says that a push claimed for it and found
	// nothing. brought is what it is answered with: what one found, or it did itself.
	// The intents own them until it rises. handed is closed with brought.
	rest    rest
	vain    bool
	brought queue.Delivery
	handed  chan struct{}
}

// wait is the loop of a waiting request: arm, look, wait, look again. When it returns
// without an error, in.brought is the answer.
//
// It passes what it finds through the intent: thousands of requests rest in sleep, and
// the runtime halves the stack of those that use less than a quarter of it.
func (d *Dispatcher) wait(in *intent) error {
	woken := wakeArrival
	for {
		if done, err := d.turn(in, woken); done || err != nil {
			return err
		}
		var done bool
		var err error
		woken, done, err = d.sleep(in)
		in.ticket.Close()
		if d.intents.rise(in) {
			return d.handed(in)
		}
		if done || err != nil {
			return err
		}
	}
}

// turn arms the intent and looks, until nothing it knows is out of date. done is true
// when that is its answer.
func (d *Dispatcher) turn(in *intent, woken wakeSource) (done bool, err error) {
	for gone := 1; ; gone++ {
		var keys []key
		if in.target, keys, err = d.arm(in); err != nil {
			return true, err
		}
		in.armed = time.Now()
		in.ticket = d.notifier.Ticket(keys...)
		found, again, err := d.lookOnce(in)
		if err == nil && found == nil && !again {
			d.count(woken, false)
			return false, nil
		}
		in.ticket.Close()
		switch {
		case err != nil:
			d.count(woken, false)
			return true, err
		case found != nil:
			d.count(woken, true)
			in.brought = *found
			return true, nil
		}
		if over, err := d.over(in); over {
			return true, err
		}
		at := in.armed.Add(goneDelay(gone))
		if in.deadline.Before(at) {
			at = in.deadline
		}
		sleepUntil(in.ctx, at, d.stopping)
	}
}

// goneDelay is how long after it armed an intent looks again that has looked so many
// times for what was gone, one after the other: at once, unless that goes on, as where
// one of two connections still leads to a Postgres that another one has replaced.
func goneDelay(times int) time.Duration {
	if times <= 3 {
		return 0
	}
	return min(time.Millisecond<<min(times, 10), time.Second)
}

// handed takes a delivery that was handed over, or gives it back when the client has left.
func (d *Dispatcher) handed(in *intent) error {
	d.backoffs.reset(in.target)
	d.count(wakeHandoff, true)
	err := in.ctx.Err()
	if err != nil {
		d.Release(in.ctx, &in.brought)
	}
	return err
}

// arm resolves what the intent waits for and returns the keys that wake it.
func (d *Dispatcher) arm(in *intent) (queue.Target, []key, error) {
	if in.req.Tags != nil {
		keys := []key{anyBirth, tagKey(in.req)}
		for _, group := range in.watched {
			keys = append(keys, targetKey(queue.Target{Group: group}))
		}
		return queue.Target{}, keys, nil
	}
	target, ok, err := d.store.Resolve(in.ctx, in.req)
	if err != nil {
		return target, nil, err
	}
	d.intents.waitsFor(in, target)
	if ok {
		return target, []key{targetKey(target)}, nil
	}
	return queue.Target{}, birthKeys(in.req), nil
}

// birthKeys are what wakes those who wait for a queue or partition that does not exist.
// The queue's birth matters in either case: a partition born together with its queue
// is announced as the queue.
func birthKeys(req *queue.PopRequest) []key {
	keys := []key{anyBirth, birthKey(req.Queue, "")}
	if req.Partition != nil {
		keys = append(keys, birthKey(req.Queue, *req.Partition))
	}
	return keys
}

// lookOnce looks unless it is known that nothing is there; found is nil when nothing is.
// again is true when what was resolved is out of date.
func (d *Dispatcher) lookOnce(in *intent) (found *queue.Delivery, again bool, err error) {
	target := in.target
	switch {
	case in.req.Tags != nil:
		return d.lookTagged(in)
	case target.Group == 0:
		// That it does not exist is older than the ticket: it may have been born
		// in between. What it is then must be armed for before it is looked at.
		in.looked = true
		_, again, err = d.store.Resolve(in.ctx, in.req)
		return nil, again, err
	default:
		if until, ok := d.facts.empty(targetKey(target), time.Now()); ok && d.proven() {
			// When it wakes it goes through a round, as all who wake with it.
			in.looked = true
			d.scheduleNext(target, until)
			return nil, false, nil
		}
	}
	var delivery *queue.Delivery
	if !in.looked {
		in.looked = true
		delivery, err = d.firstLook(in)
	} else {
		delivery, err = d.ask(in)
	}
	switch {
	case err != nil:
		return nil, false, err
	case len(delivery.Messages) > 0:
		d.backoffs.reset(target)
		return delivery, false, nil
	case delivery.Gone:
		in.req.RefreshSince = time.Now()
		d.store.Forget(in.req, target)
		return nil, true, nil
	}
	return nil, false, nil
}

// lookTagged is lookOnce of a pop by tags.
func (d *Dispatcher) lookTagged(in *intent) (found *queue.Delivery, again bool, err error) {
	if in.looked {
		// A group it has not joined by now was deleted since, or its queue made.
		in.req.RefreshSince = time.Now()
	}
	in.looked = true
	delivery, err := d.look(in.ctx, in.req)
	switch {
	case err != nil:
		return nil, false, err
	case len(delivery.Messages) > 0:
		return delivery, false, nil
	case !sameGroups(in.watched, delivery.Watched):
		// Armed for too little: arm for all of them and look once more.
		in.watched = delivery.Watched
		return nil, true, nil
	case delivery.HasNext:
		d.notifier.Announce(tagKey(in.req), time.Now().Add(delivery.NextIn))
	}
	return nil, false, nil
}

// count counts what became of a wake-up. That an arrival finds nothing is why it
// waits, and not worth counting.
func (d *Dispatcher) count(woken wakeSource, delivered bool) {
	switch {
	case delivered:
		d.metrics.wakes.WithLabelValues(string(woken), "delivered").Inc()
	case woken != wakeArrival:
		d.metrics.wakes.WithLabelValues(string(woken), "spurious").Inc()
	}
}

// firstLook is a pop of the request's own: one round trip, and right at once
// when there is a backlog.
func (d *Dispatcher) firstLook(in *intent) (*queue.Delivery, error) {
	f := d.facts.begin(targetKey(in.target))
	delivery, err := d.look(in.ctx, in.req)
	if err != nil {
		return nil, err
	}
	delivery.Gone = delivery.Target != in.target
	if lost(delivery) {
		d.learn(in.target, f, delivery.HasNext, delivery.NextIn)
	}
	return delivery, nil
}

// learn records that nothing is due for target before the instant found, and
// sets the timer for it.
func (d *Dispatcher) learn(target queue.Target, f *fact, hasNext bool, in time.Duration) {
	until := time.Time{}
	if hasNext {
		until = time.Now().Add(in)
		d.scheduleNext(target, until)
	}
	d.facts.settle(targetKey(target), f, until)
}

// scheduleNext sets the timer for whoever waits for target; a zero instant means
// that nothing is in sight.
func (d *Dispatcher) scheduleNext(target queue.Target, at time.Time) {
	if !at.IsZero() {
		d.notifier.Announce(targetKey(target), at)
	}
}

// sleep waits for what may wake the intent. done is true when it must be
// answered without another look.
func (d *Dispatcher) sleep(in *intent) (woken wakeSource, done bool, err error) {
	left := time.Until(in.deadline)
	if left <= 0 {
		return "", true, nil
	}
	fallback, shared := d.fallback(in)
	timer := time.NewTimer(min(left, time.Until(fallback)))
	defer timer.Stop()
	d.intents.lie(in)
	select {
	case <-in.handed:
		return wakeHandoff, false, nil
	case <-in.ticket.C():
		return d.rung(in), false, nil
	case <-timer.C:
		if !fallback.Before(in.deadline) {
			return "", true, nil
		}
		d.unheard(in, fallback, shared)
		return wakeFallback, false, nil
	case <-in.ctx.Done():
		return "", true, in.ctx.Err()
	case <-d.stopping:
		return "", true, nil
	}
}

// rung notes that the intent was woken, and returns by what.
func (d *Dispatcher) rung(in *intent) wakeSource {
	in.empties = 0
	d.backoffs.reset(in.target)
	return d.intents.source(in, in.armed)
}

// unheard notes that nothing woke the intent before its fallback.
func (d *Dispatcher) unheard(in *intent, fallback time.Time, shared bool) {
	doubt := func() { d.facts.drop(targetKey(in.target)) }
	if shared {
		d.backoffs.grow(in.target, fallback, doubt)
	} else {
		doubt()
	}
}

// over says whether the intent must be answered although it has more to look at.
func (d *Dispatcher) over(in *intent) (bool, error) {
	select {
	case <-in.ctx.Done():
		return true, in.ctx.Err()
	case <-d.stopping:
		return true, nil
	default:
		return !time.Now().Before(in.deadline), nil
	}
}

// fallback returns when to look unasked. shared: all who wait for the target
// look then.
func (d *Dispatcher) fallback(in *intent) (at time.Time, shared bool) {
	now := time.Now()
	switch {
	case d.proven():
		return now.Add(spread(d.cfg.FallbackInterval)), false
	case in.target.Group == 0:
		in.empties++
		return now.Add(d.policy.Delay(in.empties, rand.Float64())), false
	default:
		return d.backoffs.next(in.target, now, d.policy), true
	}
}

// spread shortens a long delay, so that many who wait do not look at once.
func spread(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (1 - 0.2*rand.Float64()))
}

func sameGroups(a, b []int64) bool {
	if len(a) != len(b) {
		return false
	}
	seen := make(map[int64]bool, len(a))
	for _, g := range a {
		seen[g] = true
	}
	for _, g := range b {
		if !seen[g] {
			return false
		}
	}
	return true
}

// isTimeout reports whether a preflight exceeded its limit on the server.
func (d *Dispatcher) isTimeout(err error) bool {
	var canceled *queue.Error
	return errors.As(err, &canceled) && canceled.Timeout
}
