package dispatch

import (
	"cmp"
	"slices"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// maxHandoffs bounds the claims that one push makes. A queue with more targets is left to the
// rounds, which probe all of them with one query.
const maxHandoffs = 4

// intentState is what a waiting request does.
type intentState uint8

const (
	stateAwake     intentState = iota // it probes, or is about to
	stateSleeping                     // it waits to be woken
	stateOffered                      // it sleeps, and a push claims for it
	stateDelivered                    // a push gave it its delivery
)

// Handoffs returns the claims that a push to the partition makes right after its commit. A request
// gets a handoff if it sleeps and is the only one that waits for its target. Then the pushed message
// needs no wake, no probe and no round trip of its own.
//
// A request with AutoAck gets no handoff: its claim consumes the messages, which would be lost if
// the request has meanwhile found others.
func (r *Intents) Handoffs(queueName, partition string) []queue.Handoff {
	r.mu.Lock()
	defer r.mu.Unlock()
	offered := r.offerLocked(queueName, partition)
	handoffs := make([]queue.Handoff, len(offered))
	for i, in := range offered {
		handoffs[i] = queue.Handoff{
			Assignment: queue.Assignment{Request: in.req, Target: in.registered},
			Take:       func(delivery queue.Delivery) bool { return r.take(in, delivery) },
		}
	}
	return handoffs
}

// offerLocked returns the sleeping intents to which a push to the partition can be handed, and marks
// them as offered. Intents that name the partition come first.
func (r *Intents) offerLocked(queueName, partition string) []*intent {
	targets := r.waiting[queueName]
	if len(targets) > maxHandoffs {
		return nil
	}
	var offered []*intent
	for _, members := range targets {
		in := only(members)
		if in == nil || in.state != stateSleeping || in.handoffMissed || in.req.AutoAck ||
			(in.req.Partition != nil && *in.req.Partition != partition) {
			continue
		}
		in.state = stateOffered
		offered = append(offered, in)
	}
	slices.SortFunc(offered, func(a, b *intent) int {
		return cmp.Or(cmp.Compare(b.registered.Partition, a.registered.Partition), a.deadline.Compare(b.deadline))
	})
	return offered
}

// only returns the only member, or nil if there are several.
func only(members map[*intent]struct{}) *intent {
	if len(members) == 1 {
		for in := range members {
			return in
		}
	}
	return nil
}

// take ends an offer. It returns true if the intent took the delivery. An intent does not take a
// delivery without messages.
func (r *Intents) take(in *intent, delivery queue.Delivery) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if in.state != stateOffered {
		return false
	}
	if len(delivery.Messages) == 0 {
		// The messages of this queue are not due at once, so another handoff would find nothing either.
		in.state, in.handoffMissed = stateSleeping, true
		return false
	}
	in.state, in.delivery = stateDelivered, delivery
	close(in.handedOver)
	r.metrics.viable.Inc()
	r.metrics.assignments.Add(float64(delivery.Partitions))
	return true
}

// markSleeping marks that the intent does nothing until it is woken.
func (r *Intents) markSleeping(in *intent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	in.state = stateSleeping
}

// markAwake marks that the intent is about to probe. It returns true and changes nothing if a push
// has given the intent its delivery.
func (r *Intents) markAwake(in *intent) (delivered bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if in.state == stateDelivered {
		return true
	}
	in.state = stateAwake
	return false
}
