package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/dispatch/plan"
	"github.com/belfry-mq/belfry/pkg/dispatch/readiness"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// claimDirectly answers the only intent of a round without a preflight. It is used if the intent was woken for one partition, or
// if no second intent waits for its target. The claim is also the probe, so there is one round trip instead of two.
func (w *worker) claimDirectly(r *roundIntent) {
	observation := w.d.Readiness.Observe(r.target)
	deliveries, err := w.d.Store.Claim(r.ctx, []queue.Assignment{{Request: r.req, Target: r.target}})
	switch {
	case err != nil:
		r.answer(roundReply{err: err})
	case len(deliveries[0].Messages) > 0:
		w.d.Metrics.viable.Inc()
		w.d.Metrics.assignments.Add(float64(deliveries[0].Partitions))
		w.d.conclude(r.target, observation, &deliveries[0])
		r.answer(roundReply{delivery: deliveries[0]})
	case deliveries[0].Contested:
		w.popAfterLostRace(r, deliveries[0].Undeliverable)
	default:
		w.d.Metrics.skipped.WithLabelValues(string(plan.SkipNoPartitions)).Inc()
		w.d.conclude(r.target, observation, &deliveries[0])
		r.answer(roundReply{delivery: deliveries[0]})
	}
}

// grant has the partitions that the plan gives to an intent.
type grant struct {
	intent     *roundIntent
	partitions []int64
}

// claim makes the claims of the plan and answers every intent. It first answers the intents that get nothing. These intents keep
// their tickets, so messages that the claims leave behind wake them.
func (w *worker) claim(ctx context.Context, intents []*roundIntent, targets []roundTarget, decisions []plan.Decision) {
	var grants []grant
	var assignments []queue.Assignment
	for i, decision := range decisions {
		r := intents[i]
		if decision.Outcome != plan.ViableAssigned {
			r.answer(roundReply{})
			continue
		}
		target := queue.Target{Group: r.target.Group, Epoch: r.target.Epoch}
		if len(decision.Partitions) == 1 {
			target.Partition = decision.Partitions[0]
		}
		grants = append(grants, grant{intent: r, partitions: decision.Partitions})
		assignments = append(assignments, queue.Assignment{Request: r.req, Target: target})
	}
	granted := grantedPartitions(grants)
	deliveries, errs := w.claimGrants(ctx, grants, assignments)
	w.updateReadiness(targets, granted, leftovers(grants, deliveries, errs))
	w.announceLeft(intents, targets, granted)
	for i, g := range grants {
		switch {
		case errs[i] != nil:
			g.intent.answer(roundReply{err: errs[i]})
		case deliveries[i].Limited:
			g.intent.answer(roundReply{})
		case foundNothing(&deliveries[i]):
			w.popAfterLostRace(g.intent, deliveries[i].Undeliverable)
		}
	}
}

// claimGrants makes the claims. It answers each intent whose claim got messages or found its group deleted. The returned lists
// are in the order of the grants.
func (w *worker) claimGrants(ctx context.Context, grants []grant, assignments []queue.Assignment) ([]queue.Delivery, []error) {
	deliveries, errs := make([]queue.Delivery, len(grants)), make([]error, len(grants))
	if len(grants) == 0 {
		return deliveries, errs
	}
	w.isolate(len(grants), func(from, to int) error {
		claimed, err := w.d.Store.Claim(ctx, assignments[from:to])
		for i := range claimed {
			deliveries[from+i] = claimed[i]
			if !foundNothing(&claimed[i]) {
				grants[from+i].intent.answer(roundReply{delivery: claimed[i], forwarded: true})
			}
		}
		return err
	}, func(i int, err error) { errs[i] = err })
	return deliveries, errs
}

// leftover says what the claims of a round left behind in a group.
type leftover struct {
	// unknown: a due partition may be left.
	unknown bool
	// next is the time until a lease of the claims ends. It is 0 if an assigned partition may be unclaimed.
	next readiness.NextDue
	// limited is the time until the limits of the group allow something, if they refused a claim or allow nothing more.
	limited readiness.NextDue
}

// leftovers returns the leftover of each group.
func leftovers(grants []grant, deliveries []queue.Delivery, errs []error) map[int64]leftover {
	left := map[int64]leftover{}
	for i, g := range grants {
		l := left[g.intent.target.Group]
		if errs[i] == nil && deliveries[i].Limited {
			l.limited.Add(deliveries[i].LimitedIn)
		}
		switch {
		case hasCulprit(errs[i]):
			l.unknown = true
			l.next.Add(culpritRetry)
		case errs[i] != nil:
			// The assigned partitions are unclaimed, or leased without a consumer. The other intents
			// probe.
			l.unknown = true
			l.next.Add(0)
		case deliveries[i].Gone, foundNothing(&deliveries[i]):
			l.unknown = true
		case len(g.partitions) > 1:
			// The claim may have taken other due partitions than the assigned ones.
			l.next.Add(0)
		case deliveries[i].HasNext && deliveries[i].NextIn <= 0:
			l.unknown = true // the delivery announces the messages that are left
		case deliveries[i].HasNext:
			l.next.Add(deliveries[i].NextIn)
		}
		left[g.intent.target.Group] = l
	}
	return left
}

// grantedPartitions returns the partitions that the plan assigns.
func grantedPartitions(grants []grant) map[queue.Target]bool {
	granted := map[queue.Target]bool{}
	for _, g := range grants {
		for _, p := range g.partitions {
			granted[queue.Target{Group: g.intent.target.Group, Partition: p}] = true
		}
	}
	return granted
}

// updateReadiness records for each target of a round whether it is empty, and when something is due.
func (w *worker) updateReadiness(targets []roundTarget, granted map[queue.Target]bool, left map[int64]leftover) {
	for _, t := range targets {
		l := left[t.target.Group]
		// The preflight may list only some of the due partitions. If intents that name partitions took all listed partitions, more
		// partitions may be due.
		l.unknown = l.unknown || !t.sawAll()
		if t.result.Limited && len(t.due()) > 0 {
			l.limited.Add(t.result.LimitedIn)
		}
		paused := false
		for _, c := range t.result.Candidates {
			switch {
			case granted[queue.Target{Group: t.target.Group, Partition: c.Partition}]:
			case c.Paused:
				paused = true
			case c.In <= 0:
				l.unknown = true
			default:
				l.next.Add(c.In)
			}
		}
		switch {
		case l.limited.Known:
			w.d.Readiness.SetLimited(t.target, t.observation, l.limited.In)
		case paused:
			w.d.Readiness.SetPaused(t.target, t.observation)
		case l.unknown || t.result.Gone || (l.next.Known && l.next.In <= 0):
			w.d.Readiness.SetUnknown(t.target, l.next)
		default:
			w.d.Readiness.SetEmpty(t.target, t.observation, l.next)
		}
	}
}

// announceLeft wakes one intent for each due partition that the round found and did not assign. If the preflight did not list all
// due partitions, it wakes one more intent. So the intents of the round need not forward their wakes. The new wakes have the
// cause of one of these wakes.
func (w *worker) announceLeft(intents []*roundIntent, targets []roundTarget, granted map[queue.Target]bool) {
	for _, t := range targets {
		cause := wakeLocal
		if i := slices.IndexFunc(intents, func(r *roundIntent) bool { return r.target == t.target && len(r.wake.Keys) > 0 }); i >= 0 {
			cause = intents[i].wake.Cause
		}
		for _, partition := range t.due() {
			if !granted[queue.Target{Group: t.target.Group, Partition: partition}] {
				w.d.Readiness.Ready([]queue.Ready{{Group: t.target.Group, Partition: partition}}, cause)
			}
		}
		if !t.sawAll() && !w.d.Readiness.Limited(t.target) {
			w.d.Readiness.WakeAt(readiness.TargetKey(t.target), time.Now())
		}
	}
}

// popAfterLostRace answers an intent whose claim found nothing because another transaction was faster, or because a payload could
// not be decrypted (unopened). The target may still have messages. So a goroutine makes a pop, which waits for the other
// transaction. The intent waits for the answer, so the goroutine ends before the intent does. If the pop finds nothing, the
// answer is unopened.
func (w *worker) popAfterLostRace(r *roundIntent, unopened error) {
	go w.guard([]*roundIntent{r}, func() {
		observation := w.d.Readiness.Observe(r.target)
		delivery, err := w.d.Store.Pop(r.ctx, r.req)
		delivery.Gone = delivery.Target != r.target
		if err == nil && foundNothing(&delivery) {
			w.d.conclude(r.target, observation, &delivery)
			err = unopened
		} else {
			// The other transaction may have left messages, so the other intents of the round probe again.
			now := time.Now()
			w.d.Readiness.WakeAt(readiness.TargetKey(queue.Target{Group: r.target.Group}), now)
			if r.target.Partition != 0 {
				w.d.Readiness.WakeAt(readiness.TargetKey(r.target), now)
			}
		}
		r.answer(roundReply{delivery: delivery, err: err, forwarded: err == nil})
	})
}

// culpritRetry is the delay before the other intents of a target probe, after the database refused a claim or after a panic. If
// they probed at once, each of them would get the same error.
const culpritRetry = time.Second

// hasCulprit reports whether one value of a statement may be the reason of its error. If the database is unavailable, every
// statement fails, so no value is the reason.
func hasCulprit(err error) bool {
	switch queue.CodeOf(err) {
	case "", queue.CodeUnavailable, queue.CodeOverloaded:
		return false
	default:
		return !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
	}
}

// isolate calls try for the items 0 to n-1. If try fails because of one item, isolate calls try for each half, and halves again.
// It calls fail for each item that fails alone. After an error without a culprit, it calls fail for all items that were not done.
func (w *worker) isolate(n int, try func(from, to int) error, fail func(i int, err error)) {
	parts := [][2]int{{0, n}} // the parts to try; the part with the lowest items is last
	for len(parts) > 0 {
		last := len(parts) - 1
		from, to := parts[last][0], parts[last][1]
		parts = parts[:last]
		err := try(from, to)
		switch {
		case err == nil:
		case hasCulprit(err) && to-from > 1:
			w.d.Metrics.splits.Inc()
			middle := from + (to-from)/2
			parts = append(parts, [2]int{middle, to}, [2]int{from, middle})
		default:
			if !hasCulprit(err) {
				to, parts = n, nil
			}
			for i := from; i < to; i++ {
				fail(i, err)
			}
		}
	}
}

// guard calls work, which answers the intents. If work panics, the intents without an answer get
// CodeInternal.
func (w *worker) guard(intents []*roundIntent, work func()) {
	defer func() {
		value := recover()
		if value == nil {
			return
		}
		w.d.Metrics.panics.Inc()
		w.d.Log.Error("a round panicked; its requests got an error and the server goes on",
			zap.Any("panic", value), zap.Int("requests", len(intents)), zap.Stack("stack"))
		err := &queue.Error{Code: queue.CodeInternal, Message: "internal error", Err: fmt.Errorf("panic in a round: %v", value)}
		for _, r := range intents {
			w.d.Readiness.SetUnknown(r.target, readiness.NextDue{Known: true, In: culpritRetry})
			r.answer(roundReply{err: err})
		}
	}()
	work()
}
