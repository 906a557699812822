package dispatch

import (
	"context"
	"time"

	"github.com/belfry-mq/belfry/pkg/plan"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// claimAlone answers the only ask of a round when nobody else waits for the same
// target. There is nothing to share, so its claim is its look: one round trip
// instead of two.
func (w *worker) claimAlone(a *ask) {
	f := w.d.facts.begin(targetKey(a.target))
	deliveries, err := w.d.store.Claim(a.in.ctx, []queue.Assignment{
		{Request: a.in.req, Target: a.target},
	})
	switch {
	case err != nil:
		a.reply <- answer{err: err}
	case len(deliveries[0].Messages) > 0:
		w.d.metrics.viable.Inc()
		w.d.metrics.assignments.Add(float64(deliveries[0].Partitions))
		a.reply <- answer{delivery: deliveries[0]}
	case deliveries[0].Contested:
		go w.lookAlone(a)
	default:
		w.d.metrics.skipped.WithLabelValues(string(plan.SkipNoPartitions)).Inc()
		if !deliveries[0].Gone {
			w.d.learn(a.target, f, deliveries[0].HasNext, deliveries[0].NextIn)
		}
		a.reply <- answer{delivery: deliveries[0]}
	}
}

// grant is an assignment of a round and whose it is.
type grant struct {
	ask        *ask
	partitions []int64
	assignment queue.Assignment
}

// claim makes the claims and answers everybody. Those who get nothing are told
// first; they hold their tickets, so what the claims leave behind wakes them.
func (w *worker) claim(ctx context.Context, asks []*ask, looks []look, findings []queue.ProbeResult, decisions []plan.Decision) {
	var grants []grant
	var assignments []queue.Assignment
	for i, decision := range decisions {
		a := asks[i]
		if decision.Outcome != plan.ViableAssigned {
			a.reply <- answer{}
			continue
		}
		assignment := queue.Assignment{Request: a.in.req, Target: queue.Target{Group: a.target.Group, Epoch: a.target.Epoch}}
		if len(decision.Partitions) == 1 {
			assignment.Target.Partition = decision.Partitions[0]
		}
		grants = append(grants, grant{ask: a, partitions: decision.Partitions, assignment: assignment})
		assignments = append(assignments, assignment)
	}
	var deliveries []queue.Delivery
	var err error
	if len(assignments) > 0 {
		deliveries, err = w.d.store.Claim(ctx, assignments)
	}
	w.learn(looks, findings, grants, leftovers(grants, deliveries, err))
	for i, g := range grants {
		switch {
		case err != nil:
			g.ask.reply <- answer{err: err}
		case lost(&deliveries[i]):
			go w.lookAlone(g.ask)
		default:
			g.ask.reply <- answer{delivery: deliveries[i]}
		}
	}
}

// lost says that somebody else was faster.
func lost(d *queue.Delivery) bool { return len(d.Messages) == 0 && !d.Gone }

// leftover is what the claims of a round left of a group.
type leftover struct {
	// unknown: a fact would be a guess.
	unknown bool
	// in is, with hasNext, how long until something of it is due again: a lease
	// ends, or more was there than a claim took.
	hasNext bool
	in      time.Duration
}

func (l *leftover) due(in time.Duration) {
	if !l.hasNext || in < l.in {
		l.hasNext, l.in = true, in
	}
}

// leftovers says by group what the claims left behind.
func leftovers(grants []grant, deliveries []queue.Delivery, err error) map[int64]leftover {
	left := map[int64]leftover{}
	for i, g := range grants {
		l := left[g.ask.target.Group]
		switch {
		case err != nil:
			// What was assigned is still there, or leased to nobody: whoever waits
			// looks.
			l.unknown = true
			l.due(0)
		case deliveries[i].Gone, lost(&deliveries[i]):
			l.unknown = true
		case len(g.partitions) > 1:
			// It took as many as were due, but not always those it was assigned.
			l.due(0)
		case deliveries[i].HasNext:
			l.due(deliveries[i].NextIn)
		}
		left[g.ask.target.Group] = l
	}
	return left
}

// learn settles the facts of the targets of a round, and sets the timers for
// what is due next in them.
func (w *worker) learn(looks []look, findings []queue.ProbeResult, grants []grant, left map[int64]leftover) {
	given := map[queue.Target]bool{}
	for _, g := range grants {
		for _, p := range g.partitions {
			given[queue.Target{Group: g.ask.target.Group, Partition: p}] = true
		}
	}
	for i, l := range looks {
		next := left[l.target.Group]
		for _, c := range findings[i].Candidates {
			switch {
			case given[queue.Target{Group: l.target.Group, Partition: c.Partition}]:
			case c.In <= 0:
				next.unknown = true
			default:
				next.due(c.In)
			}
		}
		if next.unknown || findings[i].Gone || (next.hasNext && next.in <= 0) {
			w.d.facts.drop(targetKey(l.target))
			if next.hasNext {
				w.d.scheduleNext(l.target, time.Now().Add(next.in))
			}
			continue
		}
		w.d.learn(l.target, l.fact, next.hasNext, next.in)
	}
}

// lookAlone answers an ask whose claim lost a race with a pop of its own, which
// waits for the rival: losing is not emptiness. The ask's request waits for the
// reply, so this goroutine ends before it.
func (w *worker) lookAlone(a *ask) {
	f := w.d.facts.begin(targetKey(a.target))
	delivery, err := w.d.store.Pop(a.in.ctx, a.in.req)
	delivery.Gone = delivery.Target != a.target
	if err == nil && lost(&delivery) {
		w.d.learn(a.target, f, delivery.HasNext, delivery.NextIn)
	} else {
		// Nobody has seen what the rival left behind: those who were in the same
		// round look once more.
		now := time.Now()
		w.d.notifier.Announce(targetKey(queue.Target{Group: a.target.Group}), now)
		w.d.notifier.Announce(targetKey(a.target), now)
	}
	a.reply <- answer{delivery: delivery, err: err}
}
