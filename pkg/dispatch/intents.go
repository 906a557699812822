package dispatch

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/belfry-mq/belfry/pkg/dispatch/readiness"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Intents is the registry of the waiting pop requests.
type Intents struct {
	metrics *Metrics
	// readiness is the tracker of the Dispatcher. It is nil until use is called, and then no intent waits.
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
	// noHandoffs: the claim of a push found nothing, because new messages of this queue become due only after a delay. Pushes make
	// no claims for the target until the wait of one of its intents ends.
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

// enter lists the intent as waiting, or returns why it may not wait. It may end the wait of another intent. The caller must call
// remove later.
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

// displaceLocked ends the wait of a sleeping intent.
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

// register sets the target of the intent. The zero Target: the target does not exist.
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

// maxHandoffs bounds the claims that one push makes. If intents wait for more than maxHandoffs targets of the queue, the push
// makes no claims. A round probes all these targets with one query.
const maxHandoffs = 4

// intentState is what an intent does.
type intentState uint8

const (
	stateAwake    intentState = iota // it probes or is about to probe
	stateSleeping                    // it waits to be woken
	stateOffered                     // it sleeps, and a push claims for it
	stateEnded                       // its wait is over: a push set its delivery, another intent displaced it, or its rights have ended
)

// Handoffs returns the claims that a push to the partition makes right after its commit. In each group, one sleeping intent that
// can take the partition gets a handoff. Intents that name the partition are first, then the earliest deadline. A pushed message
// that is handed over needs no wake, no probe and no further round trip.
//
// An intent with AutoAck does not probe before the end of its offer. The claim consumes the messages. If the intent found other
// messages before the end of the offer, the claimed messages would be lost.
func (r *Intents) Handoffs(queueName, partition string) []queue.Handoff {
	r.mu.Lock()
	defer r.mu.Unlock()
	offered := r.offerLocked(queueName, partition)
	handoffs := make([]queue.Handoff, len(offered))
	for i, in := range offered {
		observation := r.readiness.Observe(in.target)
		handoffs[i] = queue.Handoff{
			Assignment: queue.Assignment{Request: in.req, Target: in.target},
			Take:       func(delivery queue.Delivery) bool { return r.take(in, observation, delivery) },
		}
	}
	return handoffs
}

// offerLocked returns the sleeping intents for which a push to the partition claims, and marks them as offered. Intents that name
// the partition are first.
func (r *Intents) offerLocked(queueName, partition string) (offered []*intent) {
	targets := r.waiting[queueName]
	if len(targets) > maxHandoffs {
		return nil
	}
	namedFirst := slices.SortedFunc(maps.Keys(targets), func(a, b queue.Target) int { return cmp.Compare(b.Partition, a.Partition) })
	for _, target := range namedFirst {
		m := targets[target]
		if m.noHandoffs || len(m.sleeping) == 0 || r.readiness.Limited(target) || m.partition != nil && *m.partition != partition ||
			slices.ContainsFunc(offered, func(in *intent) bool { return in.target.Group == target.Group }) {
			continue
		}
		if in := m.sleeping[r.readiness.First(target)]; in != nil && in.ctx.Err() == nil {
			r.unmarkSleepingLocked(in)
			in.ticket.SetIdle(false)
			in.state = stateOffered
			offered = append(offered, in)
		}
	}
	return offered
}

// take ends an offer. It returns true if the intent took the delivery. An intent does not take a
// delivery without messages.
func (r *Intents) take(in *intent, o *readiness.Observation, delivery queue.Delivery) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if in.state != stateOffered {
		return false
	}
	defer r.offerEnds.Broadcast()
	if delivery.Lost != nil {
		in.end(delivery)
		return false
	}
	if delivery.Limited {
		r.readiness.SetLimited(in.target, o, delivery.LimitedIn)
	}
	if len(delivery.Messages) == 0 {
		if m := r.waiting[in.req.Queue][in.target]; m != nil {
			m.noHandoffs = !delivery.Limited
		}
		r.markSleepingLocked(in)
		return false
	}
	if !delivery.Limited {
		r.readiness.SetTaken(in.target, o, partitionsOf(&delivery))
	}
	in.end(delivery)
	r.metrics.viable.Inc()
	r.metrics.assignments.Add(float64(delivery.Partitions))
	return true
}

// end ends the wait of an intent that is not listed as sleeping. The caller holds the lock of the Intents.
func (in *intent) end(with queue.Delivery) {
	in.state, in.delivery = stateEnded, with
	close(in.handedOver)
}

// endRevoked ends the waits of the sleeping intents whose rights have ended. An intent that does not sleep checks its rights
// before it sleeps, and when it gets messages.
func (r *Intents) endRevoked() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for in := range r.admission.waiting {
		if in.state != stateSleeping {
			continue
		}
		if err := in.req.Valid(); err != nil {
			r.unmarkSleepingLocked(in)
			in.end(queue.Delivery{Lost: err})
		}
	}
}

// markSleeping marks that the intent only waits for a wake. Meanwhile a push can claim for the intent, and another intent can
// displace it.
func (r *Intents) markSleeping(in *intent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.markSleepingLocked(in)
}

// markSleepingLocked is markSleeping under the lock. It ends the wait at once if the rights of the intent have ended.
func (r *Intents) markSleepingLocked(in *intent) {
	if err := in.req.Valid(); err != nil {
		in.end(queue.Delivery{Lost: err})
		return
	}
	in.state = stateSleeping
	in.canBeDisplaced()
	if in.ticket == nil {
		return // an intent has no ticket during pop maintenance
	}
	in.ticket.SetIdle(true)
	if m := r.waiting[in.req.Queue][in.target]; m != nil {
		m.sleeping[in.ticket] = in
	}
}

// unmarkSleepingLocked undoes markSleepingLocked. The caller sets the state.
func (r *Intents) unmarkSleepingLocked(in *intent) {
	in.cannotBeDisplaced()
	if m := r.waiting[in.req.Queue][in.target]; m != nil {
		delete(m.sleeping, in.ticket)
	}
}

// markAwake marks that the intent is about to probe. It returns true and changes nothing if a push has given the intent its
// delivery, the intent was displaced, or its rights have ended. If the intent has AutoAck, markAwake blocks while a push claims
// for the intent.
func (r *Intents) markAwake(in *intent) (ended bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for in.state == stateOffered && in.req.AutoAck {
		r.offerEnds.Wait()
	}
	if in.state == stateEnded {
		return true
	}
	in.state = stateAwake
	r.unmarkSleepingLocked(in)
	return false
}
