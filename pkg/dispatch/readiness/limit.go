package readiness

import (
	"time"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// limit is the state of a group with limits.
type limit struct {
	// rooms counts the calls of room. closed are the targets that SetLimited has closed since the last call.
	rooms  uint64
	closed map[Key]struct{}
}

// count returns the number of calls of room. A group without an entry has none.
func (l *limit) count() uint64 {
	if l == nil {
		return 0
	}
	return l.rooms
}

// SetLimited ends a probe that the limits of the group refused, or after which they allow nothing more. in is the time until they
// allow something at the latest. Until then, announcements of partitions do not wake the tickets of the target, because each of
// these tickets would be refused too. Then one ticket of the target wakes. It also wakes if a lease of the group ends before; see
// Ready. If a lease has ended since Observe, one ticket wakes at once.
func (t *Tracker) SetLimited(target queue.Target, o *Observation, in time.Duration) {
	key, until := TargetKey(target), time.Now().Add(in)
	if !t.close(key, o, until) {
		until = time.Now()
	}
	t.WakeAt(key, until)
}

// close closes the target of a probe. It returns false if the limits have had room since the probe began. If something was announced
// since then, a ticket probes already, and the target stays open.
func (t *Tracker) close(key Key, o *Observation, until time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.limits[key.target.Group]
	current := t.observations[key] == o
	if current {
		delete(t.observations, key)
	}
	if l.count() != o.rooms {
		return false
	}
	if current {
		o.done, o.limited, o.until, o.learnt, o.prior, o.ready = true, true, until, time.Now(), nil, nil
		t.observations[key] = o
		l = t.limitOf(key.target.Group)
		l.closed[key] = struct{}{}
	}
	return true
}

// limitOf returns the entry of a group, and makes it if it is missing. If there are too many groups, it makes the probes that run
// now repeat.
func (t *Tracker) limitOf(group int64) *limit {
	l := t.limits[group]
	if l == nil {
		if len(t.limits) >= maxEntries {
			clear(t.limits)
			clear(t.observations)
		}
		l = &limit{closed: map[Key]struct{}{}}
		t.limits[group] = l
	}
	return l
}

// room wakes one ticket of each target that SetLimited has closed, and one for any partition of the group. The last one may be a
// pop by tags, for which no target was closed. It returns how many tickets woke.
func (t *Tracker) room(group int64, cause string) (woken int) {
	t.mu.Lock()
	l := t.limitOf(group)
	l.rooms++
	closed := l.closed
	l.closed = map[Key]struct{}{}
	whole := TargetKey(queue.Target{Group: group})
	wake := []Key{whole}
	for key := range closed {
		if o := t.observations[key]; o != nil && o.limited {
			delete(t.observations, key)
			if key != whole {
				wake = append(wake, key)
			}
		}
	}
	t.mu.Unlock()
	now := time.Now()
	for _, key := range wake {
		woken += t.notifier.Announce(now, cause, key)
	}
	return woken
}

// Limited reports whether the limits of the group refuse every probe of the target now.
func (t *Tracker) Limited(target queue.Target) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.observations[TargetKey(target)]
	return o != nil && o.limited && time.Now().Before(o.until)
}
