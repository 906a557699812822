package dispatch

import (
	"cmp"
	"slices"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// maxHandoffs is how many claims may ride with one push. More groups than that
// are served by rounds, which look for all of them with one query.
const maxHandoffs = 4

// rest is what a waiting request does.
type rest uint8

const (
	// awake: it looks, or is about to.
	awake rest = iota
	// asleep: it waits for something to happen.
	asleep
	// offered: asleep, and a push claims for it.
	offered
	// handed: a push has brought it a delivery.
	handed
)

// Handoffs returns the claims that a push to a partition should make right after
// its commit: for those who sleep until just that happens, and are the only ones
// who wait for their target. What the push brings then needs no wake-up, no
// look, and no round trip of its own. A request with AutoAck is left out: what is
// claimed for it is gone when it has found something else meanwhile.
func (r *Intents) Handoffs(queueName, partition string) []queue.Handoff {
	offers := r.offer(queueName, partition)
	handoffs := make([]queue.Handoff, len(offers))
	for i, o := range offers {
		handoffs[i] = queue.Handoff{
			Assignment: queue.Assignment{Request: o.in.req, Target: o.target},
			Take: func(delivery queue.Delivery) bool {
				if !r.hand(o.in, delivery) {
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

// offer is an intent that a push claims for, and what it waits for.
type offer struct {
	in     *intent
	target queue.Target
}

// offer returns the lone sleepers that a push to the partition concerns, and
// marks them. Those who want just this partition come first.
func (r *Intents) offer(queueName, partition string) []offer {
	r.mu.Lock()
	defer r.mu.Unlock()
	targets := r.queues[queueName]
	if len(targets) == 0 || len(targets) > maxHandoffs {
		return nil
	}
	var offers []offer
	for target := range targets {
		in := r.crowds[target].lone()
		if in == nil || in.rest != asleep || in.vain || in.req.AutoAck ||
			(in.req.Partition != nil && *in.req.Partition != partition) {
			continue
		}
		in.rest = offered
		offers = append(offers, offer{in, target})
	}
	slices.SortFunc(offers, func(a, b offer) int {
		return cmp.Or(cmp.Compare(b.target.Partition, a.target.Partition), a.in.deadline.Compare(b.in.deadline))
	})
	return offers
}

// hand concludes an offer. It reports whether the delivery has reached the
// intent; one without messages never does.
func (r *Intents) hand(in *intent, delivery queue.Delivery) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if in.rest != offered {
		return false
	}
	if len(delivery.Messages) == 0 {
		// Nothing is due at once here, so claiming at once is no use.
		in.rest, in.vain = asleep, true
		return false
	}
	in.rest, in.brought = handed, delivery
	close(in.handed)
	return true
}

// lie marks that the intent has nothing to do until it is woken.
func (r *Intents) lie(in *intent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	in.rest = asleep
}

// rise marks that the intent is about to look, unless a delivery was handed to it
// meanwhile.
func (r *Intents) rise(in *intent) (handedOver bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if in.rest == handed {
		return true
	}
	in.rest = awake
	return false
}
