package dispatch

import (
	"sync"
	"time"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// Intents is the registry of the waiting requests.
type Intents struct {
	metrics *Metrics
	mu      sync.Mutex
	all     map[*intent]struct{}
	// epoch is the epoch of the latest registered target.
	epoch queue.Epoch
	// waiters are the registered targets.
	waiters map[queue.Target]*groupWaiters
	// targets are the keys of waiters, by queue.
	targets map[string]map[queue.Target]struct{}
	// lastResync and lastCreated are the latest events of that kind.
	lastResync, lastCreated wakeRecord
}

// groupWaiters are the requests that wait for the same target.
type groupWaiters struct {
	members map[*intent]struct{}
	// lastReady is the latest announcement of the target.
	lastReady wakeRecord
}

// only returns the only member, or nil if there are several.
func (g *groupWaiters) only() *intent {
	if len(g.members) == 1 {
		for in := range g.members {
			return in
		}
	}
	return nil
}

// wakeRecord is where an event came from, and when.
type wakeRecord struct {
	source wakeSource
	at     time.Time
}

// NewIntents returns an empty registry.
func NewIntents(metrics *Metrics) *Intents {
	return &Intents{
		metrics: metrics, all: map[*intent]struct{}{},
		waiters: map[queue.Target]*groupWaiters{}, targets: map[string]map[queue.Target]struct{}{},
	}
}

func (r *Intents) add(in *intent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all[in] = struct{}{}
}

func (r *Intents) remove(in *intent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, in)
	r.registerLocked(in, queue.Target{})
}

// register notes what the intent waits for. The zero Target removes the note.
func (r *Intents) register(in *intent, target queue.Target) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.registerLocked(in, target)
}

func (r *Intents) registerLocked(in *intent, target queue.Target) {
	if in.registered == target {
		return
	}
	name := in.req.Queue
	if g := r.waiters[in.registered]; g != nil {
		if delete(g.members, in); len(g.members) == 0 {
			delete(r.waiters, in.registered)
			if delete(r.targets[name], in.registered); len(r.targets[name]) == 0 {
				delete(r.targets, name)
			}
		}
	}
	in.registered = target
	if target == (queue.Target{}) {
		return
	}
	r.epoch = target.Epoch
	g := r.waiters[target]
	if g == nil {
		g = &groupWaiters{members: map[*intent]struct{}{}}
		r.waiters[target] = g
		if r.targets[name] == nil {
			r.targets[name] = map[queue.Target]struct{}{}
		}
		r.targets[name][target] = struct{}{}
	}
	g.members[in] = struct{}{}
}

// atMostOne reports whether no second request waits for the target.
func (r *Intents) atMostOne(target queue.Target) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	g := r.waiters[target]
	return g == nil || len(g.members) <= 1
}

// recordReady records the announcement of partitions that are ready now. An announcement carries no
// epoch, so the latest one is assumed.
func (r *Intents) recordReady(ready []queue.Ready, record wakeRecord) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range ready {
		if one.In > 0 {
			continue
		}
		for _, partition := range [2]int64{0, one.Partition} {
			if g := r.waiters[queue.Target{Group: one.Group, Partition: partition, Epoch: r.epoch}]; g != nil {
				g.lastReady = record
			}
		}
	}
}

func (r *Intents) recordCreated(record wakeRecord) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lastCreated = record
}

func (r *Intents) recordResync(record wakeRecord) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lastResync = record
}

// wokenBy returns the source of the wake of an intent. It is an event that was recorded after the
// ticket was taken at armedAt, or the timer if there is no such event.
func (r *Intents) wokenBy(in *intent, armedAt time.Time) wakeSource {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.lastCreated
	if g := r.waiters[in.registered]; g != nil {
		last = g.lastReady
	}
	for _, record := range []wakeRecord{r.lastResync, last} {
		if !record.at.IsZero() && !record.at.Before(armedAt) {
			return record.source
		}
	}
	return wakeTimer
}
