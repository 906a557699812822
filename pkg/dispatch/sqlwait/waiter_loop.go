package sqlwait

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/belfry-mq/belfry/pkg/dispatch/readiness"
	"github.com/belfry-mq/belfry/pkg/process/backoff"
	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// freeWakes is how many wakes of one wait are followed by a probe at once, and wakePace the least
	// time between two probes after that.
	freeWakes = 2
	wakePace  = 25 * time.Millisecond
	// firstRepeatDelay is the delay of a second notification without an announcement since the first.
	// A wake or a settle of the store may have locked the messages for a moment.
	firstRepeatDelay = 5 * time.Millisecond
)

// waiterLoop watches for the waiters of one channel.
type waiterLoop struct {
	waiter queue.SQLWaiter
	// announced holds one value if a waiter announced itself since the last notification.
	announced chan struct{}

	// The goroutine of the loop owns the rest. sinceNotified is the ticket of the probe that led to
	// the last notification. It wakes if something was announced since.
	sinceNotified *readiness.Ticket
	notifiedAt    time.Time
	// repeats counts the notifications in a row without an announcement in between.
	repeats int
}

// runLoop notifies the channel each time after a waiter announced itself. It returns when ctx ends,
// or when no waiter announced itself for dispatch.fallback_interval.
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
		case <-l.announced: // this waiter listens already and hears the notification
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

// nextNotification returns the earliest instant of the next notification. If nothing was announced
// since the last one, a consumer may hold the messages in an open transaction. Then each
// notification is later than the one before.
func (w *Watcher) nextNotification(l *waiterLoop) time.Time {
	if l.readySinceNotified() {
		l.repeats = 0
		return time.Time{}
	}
	l.repeats++
	delay := backoff.Policy{Initial: firstRepeatDelay, Max: w.cfg.Backoff.Max, Threshold: 1, Multiplier: 2}
	return l.notifiedAt.Add(delay.Delay(l.repeats, rand.Float64()))
}

// waitForReady blocks until the waiters of the channel are to be notified. It returns false if ctx
// ended.
func (w *Watcher) waitForReady(ctx context.Context, l *waiterLoop) bool {
	deadline := time.Now().Add(w.cfg.Fallback.Delay(1, rand.Float64()))
	notBefore := w.nextNotification(l)
	wakes := 0
	for emptyProbes := 1; ; emptyProbes++ {
		probedAt := time.Now()
		ticket, result := w.probe(ctx, l.waiter, probedAt.Before(notBefore))
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
			if wakes > 0 {
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
			notBefore, emptyProbes, l.repeats = time.Time{}, 0, 0
			if wakes++; wakes > freeWakes && backoff.Sleep(ctx, time.Until(probedAt.Add(wakePace))) != nil {
				return false
			}
		case !time.Now().Before(deadline):
			return true // the waiters pop and see for themselves
		}
	}
}

// maxChannels bounds the channels that a Watcher watches.
const maxChannels = 10_000

// waiterSet holds the loops by channel.
type waiterSet struct {
	mu sync.Mutex
	m  map[string]*waiterLoop
	// fresh are the loops that do not run yet. It has room for all loops.
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

// setSignal sends a value, unless one is pending.
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
