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

// maxEntries bounds the known-empty entries. A full table is cleared, and then the next waiters probe.
const maxEntries = 100_000

// Tracker is shared by all waiters of an instance. It is safe for concurrent use.
type Tracker struct {
	notifier *notify.Notifier[Key]
	maxAge   time.Duration
	notified *notifiedPace

	mu sync.Mutex
	// observations has the probes that are running and the known-empty entries.
	observations map[Key]*Observation
	// limits has the state of the groups whose limits have refused a probe, or had room again.
	limits map[int64]*limit
}

// Observation is a probe of a target. When the probe has ended, it is the known-empty entry of the target.
type Observation struct {
	done   bool // the probe has ended
	paused bool // nothing is due before a resync
	// limited: the limits of the group refuse probes before until, or before Room. rooms counts the calls of Room before the probe.
	limited bool
	rooms   uint64
	until   time.Time // when something of the target is due; zero: no such instant is known
	learnt  time.Time // when the probe ended
	// ready has the partitions that became ready since the probe. No other partition of the target is due.
	ready map[int64]bool
	// prior is the entry that this probe replaced, if nothing became ready since then.
	prior *Observation
}

// maxReady bounds Observation.ready. If more partitions become ready, the known-empty entry is dropped.
const maxReady = 64

// dueAt records that a partition of the target is due at the given instant.
func (o *Observation) dueAt(at time.Time) {
	if o.until.IsZero() || at.Before(o.until) {
		o.until = at
	}
}

// NextDue is the time until something of a target is due again. The zero value: unknown.
type NextDue struct {
	Known bool
	In    time.Duration
}

// Add keeps the shorter time.
func (n *NextDue) Add(in time.Duration) {
	if !n.Known || in < n.In {
		n.Known, n.In = true, in
	}
}

// New returns a Tracker whose known-empty entries hold for at most maxAge. Close releases its
// timer.
func New(maxAge time.Duration) *Tracker {
	return &Tracker{notifier: notify.New[Key](), maxAge: maxAge, notified: newNotifiedPace(), observations: map[Key]*Observation{}, limits: map[int64]*limit{}}
}

// Close wakes every ticket and stops the timer. Tickets taken later never wake.
func (t *Tracker) Close() { t.notifier.Close() }

// Ticket returns a ticket that wakes at the next announcement of one of the keys. Without keys only
// a resync wakes it. The caller closes it.
func (t *Tracker) Ticket(keys ...Key) *Ticket { return t.notifier.Ticket(keys...) }

// Exclusive returns a ticket for an intent that takes what it finds. For each partition that becomes ready, one exclusive ticket
// wakes. The intent has the duties that notify.Exclusive describes.
func (t *Tracker) Exclusive(deadline time.Time, keys ...Key) *Ticket {
	return t.notifier.Exclusive(deadline, keys...)
}

// Ready announces partitions that are ready or become ready later. One intent wakes for each partition, when the partition is
// ready. Intents that name the partition come before intents for any partition of the group. Ready returns how many tickets woke
// at once. cause is the cause of the wakes.
func (t *Tracker) Ready(ready []queue.Ready, cause string) (woken int) {
	return t.announce(ready, time.Now(), cause)
}

// Notified is like Ready, for partitions that a notification named. Every role of the database can send any number of
// notifications. So after many spurious wakes, which found nothing, the tickets wake up to 2 ms later. The cause of such a late
// wake is notify.ByTimer. The caller calls NotSpurious for each wake that was not spurious.
func (t *Tracker) Notified(ready []queue.Ready, cause string) (woken int) {
	now := time.Now()
	at := t.notified.instant(now)
	woken = t.announce(ready, at, cause)
	if woken == 0 && !at.After(now) {
		t.notified.giveBack()
	}
	return woken
}

// NotSpurious records that a waiter found something after a wake that Notified may have caused.
func (t *Tracker) NotSpurious() { t.notified.giveBack() }

// announce is like Ready. Partitions that are ready wake their tickets at the instant now.
func (t *Tracker) announce(ready []queue.Ready, now time.Time, cause string) (woken int) {
	for _, r := range ready {
		if r.Partition == queue.Room {
			woken += t.room(r.Group, cause)
			continue
		}
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

// Forward gives a wake that an intent could not use to another intent, at the given instant.
func (t *Tracker) Forward(wake Wake, at time.Time) { t.notifier.Announce(at, wake.Cause, wake.Keys...) }

// First returns the ticket of the intent that a wake for the target would wake now, or nil if no intent waits for the target.
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

// Created announces a new partition, or a new queue if partition is empty. For each created name it wakes one of the intents that
// wait for the name. For a new queue it also wakes one intent of each set of tags, even if the queue has other tags. It returns
// how many tickets woke.
//
// An intent that finds the created target calls Found or Watch. Then the other intents with its name or tags wait for the target
// too.
func (t *Tracker) Created(queueName, partition, cause string) (woken int) {
	if partition == "" {
		return t.notifier.AnnounceEach(cause, creationKey(queueName, ""), anyQueue)
	}
	return t.notifier.AnnounceEach(cause, creationKey(queueName, partition))
}

// CreatedUnnamed is like Created, for a queue or partition whose name is unknown.
func (t *Tracker) CreatedUnnamed(cause string) (woken int) {
	return t.notifier.AnnounceEach(cause, anyName, anyQueue)
}

// Found records that an intent found the target of its name. If wake is for the name, Found extends the tickets of the other
// intents with this name to the target. Found then returns a wake for the target. Otherwise it returns wake. Call Found before
// the next probe of the intent.
func (t *Tracker) Found(wake Wake, target queue.Target) Wake {
	if len(wake.Keys) == 0 || wake.Keys[0].kind != kindName {
		return wake
	}
	t.notifier.Extend(wake.Keys[0], TargetKey(target))
	return Wake{Cause: wake.Cause, Keys: []Key{TargetKey(target)}}
}

// Watch makes the pops by the tags of req wait for these groups too. Call it before the next probe. Pass only new groups, because
// Watch examines all these pops for each new group.
func (t *Tracker) Watch(req *queue.PopRequest, groups []int64) {
	t.notifier.Extend(TagKey(req), TagKeys(req, groups)...)
}

// Resync forgets every known-empty entry and wakes every ticket. It returns how many woke.
func (t *Tracker) Resync(cause string) (woken int) {
	t.mu.Lock()
	clear(t.observations)
	clear(t.limits)
	t.mu.Unlock()
	return t.notifier.BroadcastAll(cause)
}

// WakeAt wakes one intent of key, and its SQL waiters, at the given instant.
func (t *Tracker) WakeAt(key Key, at time.Time) { t.notifier.Announce(at, notify.ByTimer, key) }

// Observe begins a probe of the target. Call it before the query of the probe.
func (t *Tracker) Observe(target queue.Target) *Observation {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.observations) >= maxEntries {
		clear(t.observations)
	}
	o := &Observation{prior: t.observations[TargetKey(target)], rooms: t.limits[target.Group].count()}
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

// SetEmpty ends a probe that found nothing due. The target is known to be empty until next, except if it was announced since
// Observe, or if a later probe has begun. The tickets of the target wake at next.
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

// SetTaken ends a probe that took messages from these partitions. If no other partition became ready since the target was known
// to be empty, the target is known to be empty again. The caller then announces when these partitions are due again, which may be
// now.
func (t *Tracker) SetTaken(target queue.Target, o *Observation, partitions []int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := TargetKey(target)
	if t.observations[key] != o || o.prior == nil || o.prior.paused || o.prior.limited {
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

// SetPaused ends a probe of a paused queue or group. Until the next Resync, announcements do not wake the tickets of the target.
// SetPaused has no effect if the target was announced since Observe, or if a later probe has begun. The entry expires like a
// known-empty entry.
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

// KnownEmpty reports whether nothing is due for the target. If it returns true, the tickets of the target wake when something
// becomes due.
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

// noteReady records that a partition of the target of key is due at the given instant. partition is 0 if it is unknown. It returns
// false if the target is paused or limited. A known-empty entry holds until that instant.
func (t *Tracker) noteReady(key Key, partition int64, at time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.observations[key]
	switch {
	case o == nil:
	case o.paused, o.limited && time.Now().Before(o.until):
		return false
	case o.limited:
		delete(t.observations, key)
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

// Scheduled is the time until the tickets of a target wake.
type Scheduled struct {
	Target queue.Target
	In     time.Duration
}

// Scheduled returns at most limit scheduled wakes, earliest first. It copies all scheduled instants, so it is for status pages.
func (t *Tracker) Scheduled(limit int) []Scheduled {
	var list []Scheduled
	for _, instant := range t.notifier.Due(limit) {
		list = append(list, Scheduled{Target: instant.Key.target, In: time.Until(instant.At)})
	}
	return list
}

// WokenByTimer returns how many tickets woke at a scheduled instant.
func (t *Tracker) WokenByTimer() uint64 { return t.notifier.WokenByTimer() }

// WaitUntil blocks until the given instant, or until it receives from signal, which may be nil. signaled reports whether it received
// from signal. If ctx ends first, it returns ctx.Err().
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

// Notifications may cause notifiedBurst spurious wakes, and one more in each notifiedInterval. Below this limit, notifications
// wake waiters at once. At the limit, notifications wake waiters at most once in each notifiedInterval. Healthy instances cause
// spurious wakes too. Each instance hears up to 100 notifications a second from each other instance, and often another instance
// takes the messages first.
const (
	notifiedInterval = 2 * time.Millisecond
	notifiedBurst    = 500
)

// notifiedPace decides when notifications wake waiters. It is safe for concurrent use.
type notifiedPace struct {
	mu   sync.Mutex
	pace backoff.Pace
	// next is the latest result of instant. All notifications before it wake their tickets at next.
	next time.Time
}

func newNotifiedPace() *notifiedPace {
	return &notifiedPace{pace: backoff.Pace{Interval: notifiedInterval, Burst: notifiedBurst}}
}

// instant returns when the tickets of a notification wake, and counts a spurious wake.
func (p *notifiedPace) instant(now time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !now.Before(p.next) {
		p.next = p.pace.Next(now)
	}
	return p.next
}

// giveBack takes back a wake that instant counted: the wake was not spurious, or woke no ticket.
func (p *notifiedPace) giveBack() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pace.Refund()
}
