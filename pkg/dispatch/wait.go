package dispatch

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/belfry-mq/belfry/pkg/dispatch/notify"
	"github.com/belfry-mq/belfry/pkg/dispatch/readiness"
	"github.com/belfry-mq/belfry/pkg/process/backoff"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// intent is one waiting pop request. The goroutine of the handler owns it. A round reads the fields
// that do not change while the intent waits for the answer of the round.
type intent struct {
	ctx      context.Context
	req      *queue.PopRequest
	since    time.Time
	deadline time.Time
	// slot has the tallies that count the intent.
	slot admissionSlot
	// firstProbeDone: the first probe was made, or was not needed.
	firstProbeDone bool
	// probed is the group of the last probe.
	probed int64
	// emptyProbes counts the empty probes of an intent without a group. For a group, backoffs counts
	// them.
	emptyProbes int
	// watchedGroups are the groups that a pop by tags waits for. unsharedGroups are the groups that its first probe found, until
	// the other intents with the same tags wait for them too.
	watchedGroups, unsharedGroups []int64
	// target is what the intent waits for. It is zero if the queue or partition does not exist. Only Intents.register sets it.
	target queue.Target
	// ticket wakes the intent.
	ticket *readiness.Ticket
	// wake is the wake that only this intent got. It has no keys if there is no such wake. If the intent cannot use the wake, it
	// forwards the wake after forwardAfter.
	wake         readiness.Wake
	forwardAfter time.Duration
	// forwarded: the last probe was a round, and the round woke other intents for everything that it found and left.
	forwarded bool

	// Between markSleeping and markAwake, the lock of the Intents guards state and delivery. delivery is the answer. A push or a
	// probe of the intent sets it.
	state    intentState
	delivery queue.Delivery
	// handedOver is closed when the wait has ended (stateEnded).
	handedOver chan struct{}
}

// newIntent returns an intent that arrived now.
func newIntent(ctx context.Context, req *queue.PopRequest) *intent {
	now := time.Now()
	req.WaitingSince = now
	wait := req.Wait - min(time.Duration(float64(req.Wait)*answerEarly), answerEarlyMax)
	if !req.RightsEnd.IsZero() {
		wait = min(wait, time.Until(req.RightsEnd))
	}
	return &intent{
		ctx: ctx, req: req, since: now, deadline: now.Add(wait), handedOver: make(chan struct{}),
		delivery: queue.Delivery{Queue: req.Queue, Group: req.Group},
	}
}

// wait is the loop of an intent: take a ticket, probe, wait, probe again. When it returns
// nil, in.delivery is the answer.
//
// The functions pass the delivery in the intent and not as a result, which keeps their stack frames small. Thousands of
// goroutines block in sleep, and the runtime halves the stack of a goroutine that uses less than a quarter of its stack.
func (d *Dispatcher) wait(in *intent) error {
	woken := wakeArrival
	for {
		done, err := d.armAndProbe(in, woken)
		if done || err != nil {
			return err
		}
		woken, done, err = d.sleep(in)
		in.ticket.Close()
		if d.Intents.markAwake(in) {
			return d.acceptHandoff(in)
		}
		if done || err != nil {
			return err
		}
	}
}

// goneBackoff delays the next attempt to resolve a target that was gone goneRetries times in a row. A target is gone repeatedly
// while one of two connections still leads to a Postgres that was replaced.
var goneBackoff = backoff.Policy{Initial: 16 * time.Millisecond, Max: time.Second, Threshold: 1, Multiplier: 2}

const goneRetries = 3

// armAndProbe takes a ticket and probes. If the target is gone, it takes a new ticket and probes again. If done is true,
// in.delivery is the answer.
func (d *Dispatcher) armAndProbe(in *intent, woken string) (done bool, err error) {
	for gone := 1; ; gone++ {
		var keys []readiness.Key
		if keys, err = d.resolve(in); err != nil {
			return true, err
		}
		armedAt := time.Now()
		in.ticket = d.Readiness.Exclusive(in.deadline, keys...)
		found, again, err := d.probe(in)
		var joining error
		if errors.Is(err, queue.ErrJoining) {
			// The intent does not sleep before the end of the join: the next probe is a pop too.
			in.firstProbeDone = false
			again, joining, err = true, err, nil
		}
		if err == nil && found == nil && !again {
			d.countWake(woken, false)
			in.foundNothing()
			return false, nil
		}
		in.ticket.Close()
		switch {
		case err != nil:
			d.countWake(woken, false)
			in.forwardAfter = d.retryAfter(err)
			return true, err
		case found != nil:
			d.countWake(woken, true)
			in.useWake(found)
			d.announceTaken(in.target, found)
			in.delivery = *found
			return true, nil
		}
		if over, err := d.waitIsOver(in); over {
			return true, cmp.Or(err, joining)
		}
		if gone > goneRetries {
			at := armedAt.Add(goneBackoff.Delay(gone-goneRetries, 0))
			if in.deadline.Before(at) {
				at = in.deadline
			}
			_, _ = readiness.WaitUntil(in.ctx, at, d.stopping) // if ctx has ended, waitIsOver notices it in the next pass
		}
	}
}

// acceptHandoff accepts the delivery of a push, or releases it if the client has left. An intent that was
// displaced has no delivery. An intent whose rights have ended gets the error.
func (d *Dispatcher) acceptHandoff(in *intent) error {
	if in.delivery.Displaced {
		return nil
	}
	if in.delivery.Lost != nil {
		in.forwardAfter = d.retryAfter(in.delivery.Lost)
		return in.delivery.Lost
	}
	d.backoffs.Reset(in.target)
	d.countWake(wakeHandoff, true)
	in.useWake(&in.delivery)
	_, err := d.releaseIfLeft(in.ctx, &in.delivery)
	return err
}

// countWake counts the outcome of a wake. An arrival that finds nothing is not counted, because every wait begins with such an
// arrival.
func (d *Dispatcher) countWake(woken string, delivered bool) {
	if delivered && (woken == wakeNotify || woken == notify.ByTimer) {
		d.Readiness.NotSpurious()
	}
	switch {
	case delivered:
		d.Metrics.wakes.WithLabelValues(woken, "delivered").Inc()
	case woken != wakeArrival:
		d.Metrics.wakes.WithLabelValues(woken, "spurious").Inc()
	}
}

// sleep blocks until one of these happens: the ticket wakes, a push hands over messages, the fallback timer fires, the deadline
// is reached, the client leaves, or Stop is called. If done is true, the intent must be answered without another probe.
func (d *Dispatcher) sleep(in *intent) (woken string, done bool, err error) {
	left := time.Until(in.deadline)
	if left <= 0 {
		return "", true, nil
	}
	fallback, shared := d.nextFallback(in)
	timer := time.NewTimer(min(left, time.Until(fallback)))
	defer timer.Stop()
	d.Intents.markSleeping(in)
	select {
	case <-in.handedOver:
		return wakeHandoff, false, nil
	case <-in.ticket.C():
		in.emptyProbes = 0
		d.backoffs.Reset(in.target)
		in.wake = in.ticket.Accept()
		return in.wake.Cause, false, nil
	case <-timer.C:
		if !fallback.Before(in.deadline) {
			return "", true, nil
		}
		d.distrustKnownEmpty(in, fallback, shared)
		return wakeFallback, false, nil
	case <-in.ctx.Done():
		return "", true, in.ctx.Err()
	case <-d.stopping:
		return "", true, nil
	}
}

// distrustKnownEmpty drops the known-empty entry, so that the probe of the fallback queries the database. If all intents of the
// target share the fallback, only one of them drops the entry.
func (d *Dispatcher) distrustKnownEmpty(in *intent, fallback time.Time, shared bool) {
	drop := func() { d.Readiness.Drop(in.target) }
	if shared {
		d.backoffs.Fail(in.target, fallback, time.Now(), drop)
	} else {
		drop()
	}
}

// hold blocks during pop maintenance. During this time another intent can displace the intent. If waitEnded is true, the intent
// must be answered without a probe.
func (d *Dispatcher) hold(in *intent) (waitEnded bool, err error) {
	for ended := d.Paused(); ended != nil && !waitEnded; ended = d.Paused() {
		d.Intents.markSleeping(in)
		select {
		case <-ended:
		case <-in.handedOver:
		case <-in.ctx.Done():
			waitEnded, err = true, in.ctx.Err()
		case <-d.stopping:
			waitEnded = true
		case <-time.After(time.Until(in.deadline)):
			waitEnded = true
		}
		waitEnded = d.Intents.markAwake(in) || waitEnded
	}
	return waitEnded, err
}

// waitIsOver reports whether the intent must be answered without another probe.
func (d *Dispatcher) waitIsOver(in *intent) (bool, error) {
	select {
	case <-in.ctx.Done():
		return true, in.ctx.Err()
	case <-d.stopping:
		return true, nil
	default:
		err := in.req.Valid()
		return err != nil || !time.Now().Before(in.deadline), err
	}
}

// nextFallback returns when to probe without a wake. shared: all intents of the target probe at that instant.
func (d *Dispatcher) nextFallback(in *intent) (at time.Time, shared bool) {
	now := time.Now()
	switch {
	case d.Proven():
		return now.Add(d.fallback.Delay(1, rand.Float64())), false
	case in.target.Group == 0:
		in.emptyProbes++
		return now.Add(d.backoff.Delay(in.emptyProbes, rand.Float64())), false
	default:
		return d.backoffs.Next(in.target, now, d.backoff, rand.Float64()), true
	}
}

// end ends an intent. If the intent has an unused wake, end forwards it to another intent. end runs for every intent, even after
// a panic.
func (d *Dispatcher) end(in *intent) {
	d.Intents.remove(in)
	if in.ticket != nil {
		in.ticket.Close()
	}
	if len(in.wake.Keys) > 0 {
		d.Readiness.Forward(in.wake, time.Now().Add(in.forwardAfter))
	}
}

// retryAfter returns the delay of a forwarded wake after a failed probe. If the client has left, or its rights have ended,
// another intent probes at once.
func (d *Dispatcher) retryAfter(err error) time.Duration {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), queue.CodeOf(err) == queue.CodeUnauthenticated:
		return 0
	case hasCulprit(err):
		return culpritRetry
	default:
		return d.cfg.PollInterval
	}
}

// useWake drops the wake if the delivery used it: the delivery is from the partition of the wake, or the round woke other intents
// for the rest. A delivery does not use a wake without a partition, because more partitions may be due.
func (in *intent) useWake(delivery *queue.Delivery) {
	partition := readiness.PartitionOf(in.wake)
	if in.forwarded || partition != 0 && slices.Contains(partitionsOf(delivery), partition) {
		in.wake = readiness.Wake{}
	}
}

// foundNothing drops the wake, because the probe found nothing due any more. After the deadline it keeps the wake, because there
// may have been no probe.
func (in *intent) foundNothing() {
	if time.Now().Before(in.deadline) {
		in.wake = readiness.Wake{}
	}
}

// announceTaken announces when the partitions of a delivery are due again. The other intents did not probe, so they do not know
// when this is.
func (d *Dispatcher) announceTaken(target queue.Target, delivery *queue.Delivery) {
	if target.Group == 0 {
		target = delivery.Target
	}
	if !delivery.HasNext || target.Group == 0 {
		return
	}
	var ready []queue.Ready
	for _, p := range partitionsOf(delivery) {
		ready = append(ready, queue.Ready{Group: target.Group, Partition: p, In: delivery.NextIn})
	}
	d.Readiness.Ready(ready, wakeLocal)
}

// partitionsOf lists the partitions of a delivery.
func partitionsOf(delivery *queue.Delivery) (keys []int64) {
	for i := range delivery.Messages {
		p := delivery.Messages[i].Partition
		if p != nil && (len(keys) == 0 || keys[len(keys)-1] != p.Key) {
			keys = append(keys, p.Key)
		}
	}
	return keys
}
