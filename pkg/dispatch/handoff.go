package dispatch

import (
	"cmp"
	"maps"
	"slices"

	"github.com/belfry-mq/belfry/pkg/dispatch/readiness"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// maxHandoffs bounds the claims that one push makes. A queue with more targets is left to the
// rounds, which probe all of them with one query.
const maxHandoffs = 4

// intentState is what an intent does.
type intentState uint8

const (
	stateAwake    intentState = iota // it probes, or is about to
	stateSleeping                    // it waits to be woken
	stateOffered                     // it sleeps, and a push claims for it
	stateEnded                       // a push gave it its delivery, it was displaced, or its rights have ended
)

// Handoffs returns the claims that a push to the partition makes right after its commit. One
// intent of each group gets a handoff. It sleeps and can take the partition. Intents that name the
// partition come first, then the earliest deadline. Then the pushed message needs no wake,
// no probe and no round trip of its own.
//
// An intent with AutoAck does not go on before the end of its offer: its claim consumes the messages,
// which would be lost if the intent had meanwhile found others.
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

// offerLocked returns the sleeping intents to which a push to the partition can be handed, and marks
// them as offered. Intents that name the partition come first.
func (r *Intents) offerLocked(queueName, partition string) (offered []*intent) {
	targets := r.waiting[queueName]
	if len(targets) > maxHandoffs {
		return nil
	}
	namedFirst := slices.SortedFunc(maps.Keys(targets), func(a, b queue.Target) int { return cmp.Compare(b.Partition, a.Partition) })
	for _, target := range namedFirst {
		m := targets[target]
		if m.noHandoffs || len(m.sleeping) == 0 || m.partition != nil && *m.partition != partition ||
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
	if len(delivery.Messages) == 0 {
		if m := r.waiting[in.req.Queue][in.target]; m != nil {
			m.noHandoffs = true
		}
		r.markSleepingLocked(in)
		return false
	}
	r.readiness.SetTaken(in.target, o, partitionsOf(&delivery))
	in.end(delivery)
	r.metrics.viable.Inc()
	r.metrics.assignments.Add(float64(delivery.Partitions))
	return true
}

// end ends the wait of an intent that is not listed as sleeping. The Intents are locked.
func (in *intent) end(with queue.Delivery) {
	in.state, in.delivery = stateEnded, with
	close(in.handedOver)
}

// endRevoked ends the waits of the sleeping intents whose rights have ended. Another one notices that before it
// sleeps, or when it is given messages.
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

// markSleeping marks that the intent does nothing until it is woken. Meanwhile a push can claim for it, and
// another intent can displace it.
func (r *Intents) markSleeping(in *intent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.markSleepingLocked(in)
}

// markSleepingLocked ends the wait at once if the rights of the intent have ended.
func (r *Intents) markSleepingLocked(in *intent) {
	if err := in.req.Valid(); err != nil {
		in.end(queue.Delivery{Lost: err})
		return
	}
	in.state = stateSleeping
	in.canBeDisplaced()
	if in.ticket == nil {
		return // during pop maintenance
	}
	in.ticket.SetIdle(true)
	if m := r.waiting[in.req.Queue][in.target]; m != nil {
		m.sleeping[in.ticket] = in
	}
}

// unmarkSleepingLocked is the opposite of markSleepingLocked. The caller sets the state.
func (r *Intents) unmarkSleepingLocked(in *intent) {
	in.cannotBeDisplaced()
	if m := r.waiting[in.req.Queue][in.target]; m != nil {
		delete(m.sleeping, in.ticket)
	}
}

// markAwake marks that the intent is about to probe. It returns true and changes nothing if a push
// has given the intent its delivery, the intent was displaced, or its rights have ended. With AutoAck it blocks until the end of an offer, which comes with
// the end of the push.
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
