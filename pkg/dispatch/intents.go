package dispatch

import (
	"container/heap"
	"sync"

	"github.com/belfry-mq/belfry/pkg/dispatch/readiness"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Intents is the registry of the waiting requests.
type Intents struct {
	metrics *Metrics
	// readiness is that of the Dispatcher. Nil: none waits.
	readiness *readiness.Tracker
	mu        sync.Mutex
	admission *admission
	all       map[*intent]struct{}
	// waiting are the intents whose target exists, by queue and target.
	waiting map[string]map[queue.Target]*members
}

// members are the intents of one target.
type members struct {
	count int
	// sleeping has the intents that sleep without an offer.
	sleeping sleepers
	// missed: a handoff found nothing, because the messages of this queue are not due at once. There is
	// no other handoff before the next request ends.
	missed bool
}

// NewIntents returns an empty registry.
func NewIntents(metrics *Metrics) *Intents {
	return &Intents{
		metrics: metrics, admission: newAdmission(), all: map[*intent]struct{}{}, waiting: map[string]map[queue.Target]*members{},
	}
}

// use sets the tracker that knows which targets are empty, and how many requests may wait.
func (r *Intents) use(tracker *readiness.Tracker, limit int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.readiness, r.admission.limit = tracker, limit
}

// enter lists the intent as waiting, or returns why it may not wait. It may end the wait of another intent.
// The caller calls remove.
func (r *Intents) enter(in *intent) refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	other, why := r.admission.enter(in)
	if why != admitted {
		return why
	}
	if other != nil {
		r.displaceLocked(other)
	}
	r.all[in] = struct{}{}
	return admitted
}

// displaceLocked ends the wait of an intent that sleeps.
func (r *Intents) displaceLocked(in *intent) {
	r.unmarkSleepingLocked(in)
	delete(r.all, in)
	in.end(queue.Delivery{Queue: in.req.Queue, Group: in.req.Group, Displaced: true})
	r.metrics.displaced.Inc()
}

func (r *Intents) remove(in *intent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.admission.leave(in)
	delete(r.all, in)
	r.registerLocked(in, queue.Target{})
}

// count returns how many requests wait.
func (r *Intents) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.admission.waiting
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
	if m := targets[in.registered]; m != nil {
		m.sleeping.remove(in)
		m.missed = false
		if m.count--; m.count == 0 {
			delete(targets, in.registered)
		}
	}
	in.registered = target
	if target != (queue.Target{}) {
		if targets == nil {
			targets = map[queue.Target]*members{}
			r.waiting[in.req.Queue] = targets
		}
		if targets[target] == nil {
			targets[target] = &members{}
		}
		targets[target].count++
	}
	if len(targets) == 0 {
		delete(r.waiting, in.req.Queue)
	}
}

// isAlone reports whether no second request waits for the target of the intent.
func (r *Intents) isAlone(in *intent) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.waiting[in.req.Queue][in.target]
	return m == nil || m.count <= 1
}

// sleepers is a container/heap of intents, the earliest deadline first. Of equal deadlines the oldest is first.
type sleepers []*intent

// add adds an intent that is not in the heap.
func (h *sleepers) add(in *intent) { heap.Push(h, in) }

// remove removes an intent, if it is in the heap.
func (h *sleepers) remove(in *intent) {
	if in.asleep > 0 {
		heap.Remove(h, in.asleep-1)
	}
}

func (h sleepers) Len() int { return len(h) }

func (h sleepers) Less(i, j int) bool {
	if h[i].deadline.Equal(h[j].deadline) {
		return h[i].since.Before(h[j].since)
	}
	return h[i].deadline.Before(h[j].deadline)
}

func (h sleepers) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].asleep, h[j].asleep = i+1, j+1
}

// Push implements heap.Interface.
func (h *sleepers) Push(x any) {
	in := x.(*intent) //nolint:errcheck // only add pushes, and only intents
	*h = append(*h, in)
	in.asleep = len(*h)
}

// Pop implements heap.Interface.
func (h *sleepers) Pop() any {
	last := len(*h) - 1
	in := (*h)[last]
	(*h)[last] = nil // lets the collector free the intent
	*h = (*h)[:last]
	in.asleep = 0
	return in
}
