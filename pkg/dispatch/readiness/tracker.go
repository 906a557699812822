package readiness

import (
	"context"
	"sync"
	"time"

	"github.com/belfry-mq/belfry/pkg/dispatch/notify"
	"github.com/belfry-mq/belfry/pkg/process/backoff"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Ticket wakes one waiter once.
type Ticket = notify.Ticket[Key]

// Wake says why a ticket woke.
type Wake = notify.Wake[Key]

// maxEntries bounds the known-empty entries. A full table is cleared, and the next waiters probe
// for themselves.
const maxEntries = 100_000

// Tracker is shared by all waiters of an instance. It is safe for concurrent use.
type Tracker struct {
	notifier *notify.Notifier[Key]
	maxAge   time.Duration
	notified *notifiedPace

	mu sync.Mutex
	// observations are the probes under way and the known-empty entries.
	observations map[Key]*Observation
}

// Observation is one probe of a target, and after it the known-empty entry of the target.
type Observation struct {
	done   bool      // the probe has ended
	paused bool      // nothing is due before a resync
	until  time.Time // when something of the target is due; zero: no such instant is known
	learnt time.Time // when the probe ended
	// ready are the partitions that became ready since. Nothing else of the target is due.
	ready map[int64]bool
	// prior is the entry that this probe replaced, if nothing became ready since then.
	prior *Observation
}

// maxReady bounds Observation.ready. A target with more of them is no longer known to be empty but for
// them.
const maxReady = 64

// dueAt notes that something of the target is due at that instant.
func (o *Observation) dueAt(at time.Time) {
	if o.until.IsZero() || at.Before(o.until) {
		o.until = at
	}
}

// NextDue says how long until something of a target is due again. The zero value: no such instant
// is known.
type NextDue struct {
	Known bool
	In    time.Duration
}

// Add keeps the earlier of the two instants.
func (n *NextDue) Add(in time.Duration) {
	if !n.Known || in < n.In {
		n.Known, n.In = true, in
	}
}

// New returns a Tracker whose known-empty entries hold for at most maxAge. Close releases its
// timer.
func New(maxAge time.Duration) *Tracker {
	return &Tracker{notifier: notify.New[Key](), maxAge: maxAge, notified: newNotifiedPace(), observations: map[Key]*Observation{}}
}

// Close wakes every ticket and stops the timer. Tickets taken later never wake.
func (t *Tracker) Close() { t.notifier.Close() }

// Ticket returns a ticket that wakes at the next announcement of one of the keys. Without keys only
// a resync wakes it. The caller closes it.
func (t *Tracker) Ticket(keys ...Key) *Ticket { return t.notifier.Ticket(keys...) }

// Exclusive is Ticket for an intent that takes what it finds. One such intent wakes for each partition
// that becomes ready. It has the duties of notify.Exclusive.
func (t *Tracker) Exclusive(deadline time.Time, keys ...Key) *Ticket {
	return t.notifier.Exclusive(deadline, keys...)
}

// Ready announces partitions: now, or at the instant at which a partition becomes ready. It wakes one
// intent for each partition. Intents for this partition come before intents for
// any partition of the group. It returns how many tickets woke now. The cause of
// these tickets is cause.
func (t *Tracker) Ready(ready []queue.Ready, cause string) (woken int) {
	return t.announce(ready, time.Now(), cause)
}

// Notified is Ready for partitions that a notification named. Every role of the database can send any
// number of them. So after many spurious wakes, which bring nothing, the tickets wake a little later, and
// then the cause of the wake is notify.ByTimer. The caller calls NotSpurious for each other wake.
func (t *Tracker) Notified(ready []queue.Ready, cause string) (woken int) {
	now := time.Now()
	at := t.notified.instant(now)
	woken = t.announce(ready, at, cause)
	if woken == 0 && !at.After(now) {
		t.notified.giveBack()
	}
	return woken
}

// NotSpurious notes that a wake that Notified may have caused brought a waiter something.
func (t *Tracker) NotSpurious() { t.notified.giveBack() }

// announce is Ready with the instant that stands for now.
func (t *Tracker) announce(ready []queue.Ready, now time.Time, cause string) (woken int) {
	for _, r := range ready {
		at := now.Add(max(0, r.In))
		group := TargetKey(queue.Target{Group: r.Group})
		partition := TargetKey(queue.Target{Group: r.Group, Partition: r.Partition})
		switch wakesGroup, wakesPartition := t.noteReady(group, r.Partition, at), partition != group && t.noteReady(partition, r.Partition, at); {
		case wakesGroup && wakesPartition:
			woken += t.notifier.Announce(at, cause, partition, group)
		case wakesGroup:
			woken += t.notifier.Announce(at, cause, group)
		case wakesPartition:
			woken += t.notifier.Announce(at, cause, partition)
		}
	}
	return woken
}

// Forward gives a wake that an intent could not use to another intent, at that instant.
func (t *Tracker) Forward(wake Wake, at time.Time) { t.notifier.Announce(at, wake.Cause, wake.Keys...) }

// First returns the ticket of the intent that a wake for the target would wake now, or nil if no intent
// waits for it.
func (t *Tracker) First(target queue.Target) *Ticket { return t.notifier.First(TargetKey(target)) }

// Waiting returns how many intents wait for the target.
func (t *Tracker) Waiting(target queue.Target) int {
	return t.notifier.CountExclusive(TargetKey(target))
}

// Gone wakes every ticket of a target that does not exist any more.
func (t *Tracker) Gone(target queue.Target, cause string) {
	t.Drop(target)
	t.notifier.Broadcast(cause, TargetKey(target))
}

// Created announces a new partition, or a new queue if partition is empty. It
// wakes one intent for each name that the creation may have made, and for a new queue one for each set of tags,
// whatever the tags. It returns how many tickets woke.
//
// An intent that finds what it waited for calls Found or Watch, so that the others of its name or tags
// wake like all others.
func (t *Tracker) Created(queueName, partition, cause string) (woken int) {
	if partition == "" {
		return t.notifier.AnnounceEach(cause, creationKey(queueName, ""), anyQueue)
	}
	return t.notifier.AnnounceEach(cause, creationKey(queueName, partition))
}

// CreatedUnnamed is Created for a queue or partition whose name is unknown.
func (t *Tracker) CreatedUnnamed(cause string) (woken int) {
	return t.notifier.AnnounceEach(cause, anyName, anyQueue)
}

// Found notes that an intent found the target of its name. If wake is for the name, it returns a wake for
// the target, and the other intents that wait for the name wait for the target too. Otherwise
// it returns wake. Call it before the probe that follows.
func (t *Tracker) Found(wake Wake, target queue.Target) Wake {
	if len(wake.Keys) == 0 || wake.Keys[0].kind != kindName {
		return wake
	}
	t.notifier.Extend(wake.Keys[0], TargetKey(target))
	return Wake{Cause: wake.Cause, Keys: []Key{TargetKey(target)}}
}

// Watch makes the pops by the tags of req wait for these groups too. Call it before the probe that follows, and
// with new groups alone: the first time for a group it examines all these pops.
func (t *Tracker) Watch(req *queue.PopRequest, groups []int64) {
	t.notifier.Extend(TagKey(req), TagKeys(req, groups)...)
}

// Resync forgets every known-empty entry and wakes every ticket. It returns how many woke.
func (t *Tracker) Resync(cause string) (woken int) {
	t.mu.Lock()
	clear(t.observations)
	t.mu.Unlock()
	return t.notifier.BroadcastAll(cause)
}

// WakeAt wakes one intent of key at that instant, and the SQL waiters.
func (t *Tracker) WakeAt(key Key, at time.Time) { t.notifier.Announce(at, notify.ByTimer, key) }

// Observe begins a probe of the target. It must be called before the database is asked.
func (t *Tracker) Observe(target queue.Target) *Observation {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.observations) >= maxEntries {
		clear(t.observations)
	}
	o := &Observation{prior: t.observations[TargetKey(target)]}
	if o.prior != nil && !o.prior.done {
		prior := o.prior.prior
		if prior != nil && !o.prior.until.IsZero() {
			prior.dueAt(o.prior.until)
		}
		o.prior = prior
	}
	t.observations[TargetKey(target)] = o
	return o
}

// SetEmpty ends a probe that found nothing due. The target is known to be empty until next, unless
// it was announced since Observe, or a later probe has begun. The tickets of the target wake at next.
func (t *Tracker) SetEmpty(target queue.Target, o *Observation, next NextDue) {
	until := time.Time{}
	if next.Known {
		until = time.Now().Add(next.In)
		t.WakeAt(TargetKey(target), until)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.observations[TargetKey(target)] == o {
		o.done, o.learnt, o.prior = true, time.Now(), nil
		if next.Known {
			o.dueAt(until)
		}
	}
}

// SetTaken ends a probe that took messages from these partitions. If nothing else had become ready since
// the target was known to be empty, it is known to be empty again. The caller then announces when the
// partitions are due again, which may be at once.
func (t *Tracker) SetTaken(target queue.Target, o *Observation, partitions []int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := TargetKey(target)
	if t.observations[key] != o || o.prior == nil || o.prior.paused {
		return
	}
	for _, p := range partitions {
		delete(o.prior.ready, p)
	}
	if !o.until.IsZero() {
		o.prior.dueAt(o.until)
	}
	t.observations[key] = o.prior
}

// SetPaused ends a probe that saw a paused queue or group. No announcement wakes the tickets of the target
// before the next Resync, unless the target was announced since Observe, or a later probe has begun. The
// entry has the greatest age of a known-empty entry.
func (t *Tracker) SetPaused(target queue.Target, o *Observation) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.observations[TargetKey(target)] == o {
		o.done, o.paused, o.learnt, o.prior = true, true, time.Now(), nil
	}
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
	key, now := TargetKey(target), time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.observations[key]
	if o == nil || !o.done || len(o.ready) > 0 {
		return false
	}
	if !o.until.IsZero() && !now.Before(o.until) || now.Sub(o.learnt) >= t.maxAge {
		delete(t.observations, key)
		return false
	}
	if !o.until.IsZero() {
		t.WakeAt(key, o.until)
	}
	return true
}

// Drop forgets that the target is empty.
func (t *Tracker) Drop(target queue.Target) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.observations, TargetKey(target))
}

// noteReady notes that a partition (0: unknown) of the target of key is due at that instant, and returns
// true, unless the target is paused. A target that is known to be empty is so until that instant.
func (t *Tracker) noteReady(key Key, partition int64, at time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.observations[key]
	switch {
	case o == nil:
	case o.paused:
		return false
	case at.After(time.Now()):
		o.dueAt(at)
	case o.done && partition != 0 && len(o.ready) < maxReady:
		if o.ready == nil {
			o.ready = map[int64]bool{}
		}
		o.ready[partition] = true
	default:
		delete(t.observations, key)
	}
	return true
}

// Scheduled is how long until the tickets of a target wake.
type Scheduled struct {
	Target queue.Target
	In     time.Duration
}

// Scheduled returns at most limit instants to come, earliest first. It copies all of them, so it is
// for status pages.
func (t *Tracker) Scheduled(limit int) []Scheduled {
	var list []Scheduled
	for _, instant := range t.notifier.Due(limit) {
		list = append(list, Scheduled{Target: instant.Key.target, In: time.Until(instant.At)})
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

// Notifications wake waiters at once as long as at most notifiedBurst wakes were spurious, and one more
// each notifiedInterval. After that they wake waiters at most once in notifiedInterval. Healthy instances cause
// spurious wakes too: each hears up to 100 notifications a second from each other one, and often
// another instance is faster.
const (
	notifiedInterval = 2 * time.Millisecond
	notifiedBurst    = 500
)

// notifiedPace decides when notifications wake waiters. It is safe for concurrent use.
type notifiedPace struct {
	mu   sync.Mutex
	pace backoff.Pace
	// next is the latest instant that was given out. All notifications before it share it.
	next time.Time
}

func newNotifiedPace() *notifiedPace {
	return &notifiedPace{pace: backoff.Pace{Interval: notifiedInterval, Burst: notifiedBurst}}
}

// instant returns when the tickets of a notification wake, and counts that as a spurious wake.
func (p *notifiedPace) instant(now time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !now.Before(p.next) {
		p.next = p.pace.Next(now)
	}
	return p.next
}

// giveBack takes back one wake that instant counted: it was not spurious, or nothing woke.
func (p *notifiedPace) giveBack() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pace.Refund()
}
