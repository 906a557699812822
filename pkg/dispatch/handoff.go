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
	// stateAwake: the request probes, or is about to.
	stateAwake intentState = iota
	// stateSleeping: the request waits to be woken.
	stateSleeping
	// stateOffered: the request sleeps, and a push claims for it.
	stateOffered
	// stateDelivered: a push gave the request its delivery.
	stateDelivered
)

// Handoffs returns the claims that a push to the partition makes right after its commit. A request
// gets a handoff if it sleeps and is the only one that waits for its target. Then the pushed message
// needs no wake, no probe and no round trip of its own.
//
// A request with AutoAck gets no handoff: its claim consumes the messages, which would be lost if
// the request has meanwhile found others.
func (r *Intents) Handoffs(queueName, partition string) []queue.Handoff {
	offers := r.offers(queueName, partition)
	handoffs := make([]queue.Handoff, len(offers))
	for i, o := range offers {
		handoffs[i] = queue.Handoff{
			Assignment: queue.Assignment{Request: o.in.req, Target: o.target},
			Take: func(delivery queue.Delivery) bool {
				if !r.take(o.in, delivery) {
					return false
				}
				r.metrics.viable.Inc()
				r.metrics.assignments.Add(float64(delivery.Partitions))
				return true
			},
		}
	}
	return handoffs
}

// offer is an intent that a push claims for, and the target of the claim.
type offer struct {
	in     *intent
	target queue.Target
}

// offers returns the sleeping intents to which a push to the partition can be handed, and marks
// them as offered. Intents that name the partition come first.
func (r *Intents) offers(queueName, partition string) []offer {
	r.mu.Lock()
	defer r.mu.Unlock()
	targets := r.targets[queueName]
	if len(targets) == 0 || len(targets) > maxHandoffs {
		return nil
	}
	var offers []offer
	for target := range targets {
		in := r.waiters[target].only()
		if in == nil || in.state != stateSleeping || in.handoffMissed || in.req.AutoAck ||
			(in.req.Partition != nil && *in.req.Partition != partition) {
			continue
		}
		in.state = stateOffered
		offers = append(offers, offer{in, target})
	}
	slices.SortFunc(offers, func(a, b offer) int {
		return cmp.Or(cmp.Compare(b.target.Partition, a.target.Partition), a.in.deadline.Compare(b.in.deadline))
	})
	return offers
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
