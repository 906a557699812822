package dispatch

import (
	"slices"
	"time"

	"github.com/belfry-mq/belfry/pkg/dispatch/readiness"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// resolve sets the target of the intent, and returns the keys that wake it.
func (d *Dispatcher) resolve(in *intent) ([]readiness.Key, error) {
	if in.req.Tags != nil {
		return readiness.TagKeys(in.req, in.watchedGroups), nil
	}
	target, joining, ok, err := d.Store.Resolve(in.ctx, in.req)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		d.Intents.register(in, queue.Target{})
		return readiness.CreationKeys(in.req), nil
	}
	d.Intents.register(in, target)
	if joining {
		in.firstProbeDone = false // a pop waits for the end of the join, and a round does not
	}
	in.wake = d.Readiness.Found(in.wake, target)
	return []readiness.Key{readiness.TargetKey(target)}, nil
}

// probe claims for the intent, unless the target is known to be empty. found is nil if nothing was
// claimed. again is true if the target is out of date and must be resolved again.
func (d *Dispatcher) probe(in *intent) (found *queue.Delivery, again bool, err error) {
	target := in.target
	if target.Group != in.probed && in.probed != 0 {
		in.firstProbeDone = false // a group was recreated, and may still join its queue
	}
	in.probed, in.forwarded = target.Group, false
	switch {
	case in.req.Tags != nil:
		return d.probeTags(in)
	case target.Group == 0:
		// The target may have been created between resolve and the ticket. Then the intent needs a
		// ticket for the new target before it probes.
		in.firstProbeDone = true
		_, _, again, err = d.Store.Resolve(in.ctx, in.req)
		return nil, again, err
	case d.Proven() && d.Readiness.KnownEmpty(target):
		// The next probe is part of a round, together with all intents that wake at the same time.
		in.firstProbeDone = true
		return nil, false, nil
	}
	var delivery *queue.Delivery
	if !in.firstProbeDone {
		in.firstProbeDone = true
		delivery, err = d.firstProbe(in)
	} else {
		delivery, err = d.joinRound(in)
	}
	switch {
	case err != nil:
		return nil, false, err
	case len(delivery.Messages) > 0:
		d.backoffs.Reset(target)
		return delivery, false, nil
	case delivery.Gone:
		in.req.RefreshSince = time.Now()
		d.Store.Forget(in.req, target)
		if len(in.wake.Keys) > 0 { // the other intents were not woken, so they do not know that the group is gone
			d.Readiness.Gone(target, in.wake.Cause)
		}
		return nil, true, nil
	}
	return nil, false, nil
}

// firstProbe makes a separate pop for the intent, with one round trip. If messages wait already, this is the fastest way to get
// them.
func (d *Dispatcher) firstProbe(in *intent) (*queue.Delivery, error) {
	observation := d.Readiness.Observe(in.target)
	delivery, err := d.popOnce(in.ctx, in.req)
	if err != nil {
		return nil, err
	}
	delivery.Gone = delivery.Target != in.target
	d.conclude(in.target, observation, delivery)
	return delivery, nil
}

// probeTags is like probe, for a pop by tags.
func (d *Dispatcher) probeTags(in *intent) (found *queue.Delivery, again bool, err error) {
	first := !in.firstProbeDone
	in.firstProbeDone = true
	if !first {
		// A group that is missing now was deleted since the first probe, or its queue is new.
		in.req.RefreshSince = time.Now()
		d.shareGroups(in)
	}
	delivery, err := d.popOnce(in.ctx, in.req)
	switch {
	case err != nil:
		return nil, false, err
	case len(delivery.Messages) > 0:
		return delivery, false, nil
	case !sameGroups(in.watchedGroups, delivery.Watched):
		// The ticket does not have all groups. Take a ticket for all groups and probe again.
		if first {
			in.unsharedGroups = delivery.Watched
		} else {
			d.Readiness.Watch(in.req, newGroups(in.watchedGroups, delivery.Watched))
		}
		in.watchedGroups = delivery.Watched
		return nil, true, nil
	case delivery.HasNext:
		d.Readiness.WakeAt(readiness.TagKey(in.req), time.Now().Add(delivery.NextIn))
	}
	return nil, false, nil
}

// shareGroups makes the other intents with the same tags wait for the groups that the first probe of this intent found. It does
// nothing if this intent was not woken alone by the creation of a queue. Intents that arrived before that creation do not know
// these groups.
func (d *Dispatcher) shareGroups(in *intent) {
	if len(in.wake.Keys) == 1 && in.wake.Keys[0] == readiness.TagKey(in.req) && len(in.unsharedGroups) > 0 {
		d.Readiness.Watch(in.req, in.unsharedGroups)
		in.unsharedGroups = nil
	}
}

// conclude records the result of a probe that was one claim.
func (d *Dispatcher) conclude(target queue.Target, o *readiness.Observation, delivery *queue.Delivery) {
	switch {
	case delivery.Gone:
	case delivery.Limited:
		d.Readiness.SetLimited(target, o, delivery.LimitedIn)
	case len(delivery.Messages) > 0:
		d.Readiness.SetTaken(target, o, partitionsOf(delivery))
	case delivery.Paused:
		d.Readiness.SetPaused(target, o)
	default:
		d.Readiness.SetEmpty(target, o, nextDue(delivery))
	}
}

// nextDue returns when the next partition of the target is due, according to the delivery.
func nextDue(d *queue.Delivery) readiness.NextDue {
	return readiness.NextDue{Known: d.HasNext, In: d.NextIn}
}

// foundNothing reports whether a claim took nothing from a target that exists.
func foundNothing(d *queue.Delivery) bool { return len(d.Messages) == 0 && !d.Gone }

// sameGroups reports whether two lists hold the same groups.
func sameGroups(a, b []int64) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// newGroups returns the groups of current that are not in old.
func newGroups(old, current []int64) []int64 {
	known := map[int64]bool{}
	for _, group := range old {
		known[group] = true
	}
	return slices.DeleteFunc(slices.Clone(current), func(group int64) bool { return known[group] })
}
