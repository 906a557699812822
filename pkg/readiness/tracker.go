package readiness

import (
	"context"
	"time"

	"github.com/belfry-mq/belfry/pkg/notify"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Ticket wakes one waiter once.
type Ticket = notify.Ticket[Key]

// Tracker is shared by all waiters of an instance. It is safe for concurrent use.
type Tracker struct {
	notifier *notify.Notifier[Key]
	empty    emptyTargets
}

// New returns a Tracker whose known-empty entries hold for at most maxAge. Close releases its
// timer.
func New(maxAge time.Duration) *Tracker {
	return &Tracker{
		notifier: notify.New[Key](),
		empty:    emptyTargets{maxAge: maxAge, m: map[Key]*Observation{}},
	}
}

// Close wakes every ticket and stops the timer. Tickets taken later never wake.
func (t *Tracker) Close() { t.notifier.Close() }

// Ticket returns a ticket that wakes at the next announcement of one of the keys. Without keys only
// a resync wakes it. The caller closes it.
func (t *Tracker) Ticket(keys ...Key) *Ticket { return t.notifier.Ticket(keys...) }

// Ready announces partitions and their groups: now, or at the instant at which a partition becomes
// ready. It returns how many tickets woke now. The cause of these tickets is cause.
func (t *Tracker) Ready(ready []queue.Ready, cause string) (woken int) {
	now := time.Now()
	for _, r := range ready {
		at := now.Add(max(0, r.In))
		group := TargetKey(queue.Target{Group: r.Group})
		partition := TargetKey(queue.Target{Group: r.Group, Partition: r.Partition})
		t.empty.drop(group, partition)
		woken += t.notifier.Announce(group, at, cause)
		if partition != group {
			woken += t.notifier.Announce(partition, at, cause)
		}
	}
	return woken
}

// Created announces a new partition, or a new queue if partition is empty. A new queue wakes also
// the pops by tags, whatever their tags.
func (t *Tracker) Created(queueName, partition, cause string) {
	now := time.Now()
	t.notifier.Announce(creationKey(queueName, partition), now, cause)
	if partition == "" {
		t.notifier.Announce(anyCreation, now, cause)
	}
}

// CreatedUnnamed announces a new queue or partition whose name is unknown. Every ticket for a name
// that does not exist wakes.
func (t *Tracker) CreatedUnnamed(cause string) { t.notifier.Announce(anyCreation, time.Now(), cause) }

// Resync forgets every known-empty entry and wakes every ticket. It returns how many woke.
func (t *Tracker) Resync(cause string) (woken int) {
	t.empty.dropAll()
	return t.notifier.AnnounceAll(cause)
}

// WakeAt wakes the tickets that key has at that instant.
func (t *Tracker) WakeAt(key Key, at time.Time) { t.notifier.Announce(key, at, notify.ByTimer) }

// Observe begins a probe of the target. It must be called before the database is asked.
func (t *Tracker) Observe(target queue.Target) *Observation {
	return t.empty.observe(TargetKey(target))
}

// SetEmpty ends a probe that found nothing due. The target is known to be empty until next, unless
// it was announced since Observe. The tickets of the target wake at next.
func (t *Tracker) SetEmpty(target queue.Target, o *Observation, next NextDue) {
	until := time.Time{}
	if next.Known {
		until = time.Now().Add(next.In)
		t.WakeAt(TargetKey(target), until)
	}
	t.empty.set(TargetKey(target), o, until)
}

// SetUnknown ends a probe after which the target may have something due. The tickets of the target
// wake at next.
func (t *Tracker) SetUnknown(target queue.Target, next NextDue) {
	t.Drop(target)
	if next.Known {
		t.WakeAt(TargetKey(target), time.Now().Add(next.In))
	}
}

// KnownEmpty reports whether nothing is due for the target. If so, the tickets of the target wake
// at the instant at which something is due.
func (t *Tracker) KnownEmpty(target queue.Target) bool {
	until, ok := t.empty.known(TargetKey(target), time.Now())
	if ok && !until.IsZero() {
		t.WakeAt(TargetKey(target), until)
	}
	return ok
}

// Drop forgets that the target is empty.
func (t *Tracker) Drop(target queue.Target) { t.empty.drop(TargetKey(target)) }

// Scheduled is an instant at which the tickets of a target wake.
type Scheduled struct {
	Target queue.Target
	At     time.Time
}

// Scheduled returns at most limit instants to come, earliest first. It copies all of them, so it is
// for status pages.
func (t *Tracker) Scheduled(limit int) []Scheduled {
	var list []Scheduled
	for _, instant := range t.notifier.Due(limit) {
		list = append(list, Scheduled{Target: instant.Key.target, At: instant.At})
	}
	return list
}

// WokenByTimer returns how many tickets woke because an instant came.
func (t *Tracker) WokenByTimer() uint64 { return t.notifier.WokenByTimer() }

// WaitUntil blocks until the instant, or until signal can be received from (nil: never), which sets
// signaled. If ctx ends first, it returns ctx.Err().
func WaitUntil(ctx context.Context, at time.Time, signal <-chan struct{}) (signaled bool, err error) {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case <-signal:
		return true, nil
	case <-timer.C:
		return false, nil
	}
}
