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

	// rest is what it does, vain says that a push claimed for it and found
	// nothing, and brought is what one found; the intents own them. handed is
	// closed with brought.
	rest    rest
	vain    bool
	brought queue.Delivery
	handed  chan struct{}
}

// wait is the loop of a waiting request: arm, look, wait, look again.
func (d *Dispatcher) wait(in *intent) (queue.Delivery, error) {
	empty := queue.Delivery{Queue: in.req.Queue, Group: in.req.Group}
	woken, gone := wakeArrival, 0
	for {
		target, keys, err := d.arm(in)
		if err != nil {
			return empty, err
		}
		armed := time.Now()
		ticket := d.notifier.Ticket(keys...)
		delivery, again, err := d.lookOnce(in, target)
		if err != nil || len(delivery.Messages) > 0 {
			ticket.Close()
			d.count(woken, err == nil)
			return delivery, err
		}
		if again {
			ticket.Close()
			if over, err := d.over(in); over {
				return empty, err
			}
			gone++
			at := armed.Add(goneDelay(gone))
			if in.deadline.Before(at) {
				at = in.deadline
			}
			sleepUntil(in.ctx, at, d.stopping)
			continue
		}
		gone = 0
		d.count(woken, false)
		var done bool
		woken, done, err = d.sleep(in, target, ticket, armed)
		ticket.Close()
		if delivery, ok := d.intents.rise(in); ok {
			d.backoffs.reset(target)
			return d.handed(in, delivery)
		}
		if done || err != nil {
			return empty, err
		}
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

// handed returns a delivery that was handed over, unless the client has left.
func (d *Dispatcher) handed(in *intent, delivery queue.Delivery) (queue.Delivery, error) {
	d.count(wakeHandoff, true)
	if in.ctx.Err() != nil {
		d.Release(in.ctx, &delivery)
		return queue.Delivery{}, in.ctx.Err()
	}
	return delivery, nil
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

// lookOnce looks unless it is known that nothing is there. again is true when
// what was resolved is out of date.
func (d *Dispatcher) lookOnce(in *intent, target queue.Target) (delivery queue.Delivery, again bool, err error) {
	switch {
	case in.req.Tags != nil:
		if in.looked {
			// A group it has not joined by now was deleted since, or its queue made.
			in.req.Anew = time.Now()
		}
		in.looked = true
		delivery, err = d.look(in.ctx, in.req)
		if err == nil && len(delivery.Messages) == 0 && !sameGroups(in.watched, delivery.Watched) {
			// Armed for too little: arm for all of them and look once more.
			in.watched = delivery.Watched
			return delivery, true, nil
		}
		if err == nil && len(delivery.Messages) == 0 && delivery.HasNext {
			d.notifier.Announce(tagKey(in.req), time.Now().Add(delivery.NextIn))
		}
		return delivery, false, err
	case target.Group == 0:
		// That it does not exist is older than the ticket: it may have been born
		// in between. What it is then must be armed for before it is looked at.
		in.looked = true
		_, again, err = d.store.Resolve(in.ctx, in.req)
		return queue.Delivery{}, again, err
	default:
		if until, ok := d.facts.empty(targetKey(target), time.Now()); ok && d.others.Proven() {
			// When it wakes it goes through a round, as all who wake with it.
			in.looked = true
			d.scheduleNext(target, until)
			return queue.Delivery{}, false, nil
		}
	}
	if !in.looked {
		in.looked = true
		delivery, err = d.firstLook(in, target)
	} else {
		delivery, err = d.ask(in, target)
	}
	switch {
	case err != nil:
		return delivery, false, err
	case len(delivery.Messages) > 0:
		d.backoffs.reset(target)
		return delivery, false, nil
	case delivery.Gone:
		in.req.Anew = time.Now()
		d.store.Forget(in.req, target)
		return delivery, true, nil
	}
	return delivery, false, nil
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
func (d *Dispatcher) firstLook(in *intent, target queue.Target) (queue.Delivery, error) {
	f := d.facts.begin(targetKey(target))
	delivery, err := d.look(in.ctx, in.req)
	delivery.Gone = delivery.Target != target
	if err == nil && lost(&delivery) {
		d.learn(target, f, delivery.HasNext, delivery.NextIn)
	}
	return delivery, err
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
func (d *Dispatcher) sleep(in *intent, target queue.Target, ticket *notify.Ticket[key], armed time.Time) (woken wakeSource, done bool, err error) {
	left := time.Until(in.deadline)
	if left <= 0 {
		return "", true, nil
	}
	fallback, shared := d.fallback(in, target)
	timer := time.NewTimer(min(left, time.Until(fallback)))
	defer timer.Stop()
	d.intents.lie(in)
	select {
	case <-in.handed:
		return wakeHandoff, false, nil
	case <-ticket.C():
		in.empties = 0
		d.backoffs.reset(target)
		return d.intents.source(in, armed), false, nil
	case <-timer.C:
		if !fallback.Before(in.deadline) {
			return "", true, nil
		}
		if doubt := func() { d.facts.drop(targetKey(target)) }; shared {
			d.backoffs.grow(target, fallback, doubt)
		} else {
			doubt()
		}
		return wakeFallback, false, nil
	case <-in.ctx.Done():
		return "", true, in.ctx.Err()
	case <-d.stopping:
		return "", true, nil
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
func (d *Dispatcher) fallback(in *intent, target queue.Target) (at time.Time, shared bool) {
	now := time.Now()
	switch {
	case d.others.Proven():
		return now.Add(spread(d.cfg.FallbackInterval)), false
	case target.Group == 0:
		in.empties++
		return now.Add(d.policy.Delay(in.empties, rand.Float64())), false
	default:
		return d.backoffs.next(target, now, d.policy), true
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
