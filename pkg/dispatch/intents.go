package dispatch

import (
	"sync"

	"github.com/belfry-mq/belfry/pkg/dispatch/readiness"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Intents is the registry of the waiting pop requests.
type Intents struct {
	metrics *Metrics
	// readiness is that of the Dispatcher. Nil: none waits.
	readiness *readiness.Tracker
	mu        sync.Mutex
	offerEnds *sync.Cond
	admission *admission
	// waiting are the intents whose target exists, by queue and target.
	waiting map[string]map[queue.Target]*members
}

// members are the intents of one target.
type members struct {
	count int
	// partition is the name of the partition of the target. Nil: any partition.
	partition *string
	// sleeping has the intents that sleep without an offer. The readiness.Tracker has their order.
	sleeping map[*readiness.Ticket]*intent
	// noHandoffs: the claim of a push found nothing, because the messages of this queue are not due at once.
	// No push claims before the next intent ends.
	noHandoffs bool
}

// NewIntents returns an empty registry.
func NewIntents(metrics *Metrics) *Intents {
	r := &Intents{metrics: metrics, admission: newAdmission(), waiting: map[string]map[queue.Target]*members{}}
	r.offerEnds = sync.NewCond(&r.mu)
	return r
}

// use sets the tracker that knows which targets are empty, and how many intents may wait.
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
	return admitted
}

// displaceLocked ends the wait of an intent that sleeps.
func (r *Intents) displaceLocked(in *intent) {
	r.unmarkSleepingLocked(in)
	in.end(queue.Delivery{Queue: in.req.Queue, Group: in.req.Group, Displaced: true})
	r.metrics.displaced.Inc()
}

func (r *Intents) remove(in *intent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.admission.leave(in)
	r.registerLocked(in, queue.Target{})
}

// count returns how many intents wait.
func (r *Intents) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.admission.waiting)
}

// register sets what the intent waits for. The zero Target: nothing that exists.
func (r *Intents) register(in *intent, target queue.Target) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.registerLocked(in, target)
}

func (r *Intents) registerLocked(in *intent, target queue.Target) {
	if in.target == target {
		return
	}
	targets := r.waiting[in.req.Queue]
	if m := targets[in.target]; m != nil {
		delete(m.sleeping, in.ticket)
		m.noHandoffs = false
		if m.count--; m.count == 0 {
			delete(targets, in.target)
		}
	}
	in.target = target
	if target != (queue.Target{}) {
		if targets == nil {
			targets = map[queue.Target]*members{}
			r.waiting[in.req.Queue] = targets
		}
		if targets[target] == nil {
			targets[target] = &members{partition: in.req.Partition, sleeping: map[*readiness.Ticket]*intent{}}
		}
		targets[target].count++
	}
	if len(targets) == 0 {
		delete(r.waiting, in.req.Queue)
	}
}

// isAlone reports whether no second intent waits for the target of the intent.
func (r *Intents) isAlone(in *intent) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.waiting[in.req.Queue][in.target]
	return m == nil || m.count <= 1
}
