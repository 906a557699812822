package dispatch

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/belfry-mq/belfry/pkg/dispatch/readiness"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// end ends an intent. If it holds a wake, another intent gets it. Every intent ends here, also one that
// panics.
func (d *Dispatcher) end(in *intent) {
	d.Intents.remove(in)
	if in.ticket != nil {
		in.ticket.Close()
	}
	if len(in.wake.Keys) > 0 {
		d.Readiness.Forward(in.wake, time.Now().Add(in.forwardAfter))
	}
}

// retryAfter is how long a wake rests after a probe that failed. If the client has left, or its rights have
// ended, another intent probes at once.
func (d *Dispatcher) retryAfter(err error) time.Duration {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), queue.CodeOf(err) == queue.CodeUnauthenticated:
		return 0
	case hasCulprit(err):
		return culpritRetry
	default:
		return d.cfg.PollInterval
	}
}

// useWake notes that a delivery used the wake. A wake for a partition is used by a delivery from this
// partition: what that leaves is announced. After another wake, more partitions may be due.
func (in *intent) useWake(delivery *queue.Delivery) {
	partition := readiness.PartitionOf(in.wake)
	if in.forwarded || partition != 0 && slices.Contains(partitionsOf(delivery), partition) {
		in.wake = readiness.Wake{}
	}
}

// foundNothing notes that a probe used the wake: what woke the intent is no longer due. After the deadline
// there was perhaps no probe.
func (in *intent) foundNothing() {
	if time.Now().Before(in.deadline) {
		in.wake = readiness.Wake{}
	}
}

// announceTaken announces when the partitions of a delivery are due again. Other intents wait for that,
// and no wake made them look.
func (d *Dispatcher) announceTaken(target queue.Target, delivery *queue.Delivery) {
	if target.Group == 0 {
		target = delivery.Target
	}
	if !delivery.HasNext || target.Group == 0 {
		return
	}
	var ready []queue.Ready
	for _, p := range partitionsOf(delivery) {
		ready = append(ready, queue.Ready{Group: target.Group, Partition: p, In: delivery.NextIn})
	}
	d.Readiness.Ready(ready, wakeLocal)
}

// partitionsOf lists the partitions of a delivery.
func partitionsOf(delivery *queue.Delivery) (keys []int64) {
	for i := range delivery.Messages {
		p := delivery.Messages[i].Partition
		if p != nil && (len(keys) == 0 || keys[len(keys)-1] != p.Key) {
			keys = append(keys, p.Key)
		}
	}
	return keys
}

// forwardWakes wakes intents for what a round saw and left, if its intents were woken for it. After that
// their own wakes are used. A wake for a partition is used if the partition was claimed, or is seen not to be due.
// Another wake goes on until a round sees everything that is due.
func (w *worker) forwardWakes(intents []*roundIntent, targets []roundTarget, granted map[queue.Target]bool) {
	for _, t := range targets {
		left, sawAll := leftOver(&t, granted), t.sawAll()
		var general readiness.Wake
		for _, r := range intents {
			if r.target != t.target || len(r.wake.Keys) == 0 {
				continue
			}
			partition := readiness.PartitionOf(r.wake)
			switch {
			case partition == 0:
				general = r.wake
			case left[partition], !sawAll && !granted[queue.Target{Group: t.target.Group, Partition: partition}]:
				delete(left, partition)
				w.d.Readiness.Forward(r.wake, time.Time{})
			}
		}
		if len(general.Keys) == 0 {
			continue
		}
		for partition := range left {
			w.d.Readiness.Ready([]queue.Ready{{Group: t.target.Group, Partition: partition}}, general.Cause)
		}
		if !sawAll {
			w.d.Readiness.Forward(general, time.Time{})
		}
	}
}

// leftOver returns the due partitions of a target that the plan did not give away.
func leftOver(t *roundTarget, granted map[queue.Target]bool) map[int64]bool {
	left := map[int64]bool{}
	for _, partition := range t.due() {
		if !granted[queue.Target{Group: t.target.Group, Partition: partition}] {
			left[partition] = true
		}
	}
	return left
}
