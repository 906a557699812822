package dispatch

import (
	"sync"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// Intents is the registry of the waiting requests.
type Intents struct {
	metrics *Metrics
	mu      sync.Mutex
	all     map[*intent]struct{}
	// waiting are the intents whose target exists, by queue and target.
	waiting map[string]map[queue.Target]map[*intent]struct{}
}

// NewIntents returns an empty registry.
func NewIntents(metrics *Metrics) *Intents {
	return &Intents{
		metrics: metrics, all: map[*intent]struct{}{}, waiting: map[string]map[queue.Target]map[*intent]struct{}{},
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
	targets := r.waiting[in.req.Queue]
	if members := targets[in.registered]; members != nil {
		if delete(members, in); len(members) == 0 {
			delete(targets, in.registered)
		}
	}
	in.registered = target
	if target != (queue.Target{}) {
		if targets == nil {
			targets = map[queue.Target]map[*intent]struct{}{}
			r.waiting[in.req.Queue] = targets
		}
		if targets[target] == nil {
			targets[target] = map[*intent]struct{}{}
		}
		targets[target][in] = struct{}{}
	}
	if len(targets) == 0 {
		delete(r.waiting, in.req.Queue)
	}
}

// isAlone reports whether no second request waits for the target of the intent.
func (r *Intents) isAlone(in *intent) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.waiting[in.req.Queue][in.target]) <= 1
}
