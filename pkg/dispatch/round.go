package dispatch

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/dispatch/plan"
	"github.com/belfry-mq/belfry/pkg/dispatch/readiness"
	"github.com/belfry-mq/belfry/pkg/process/backoff"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// maxPreflightTimeout is the highest time limit of a preflight. The limit grows after preflights that took too long.
const maxPreflightTimeout = 5 * time.Second

// roundIntent is an intent that joins the next round.
type roundIntent struct {
	*intent
	// target and wake are the target and the wake of the intent when it joined. They are copies, because the intent changes its
	// own fields as soon as it has the answer.
	target queue.Target
	wake   readiness.Wake
	// reply receives exactly one answer. It is buffered, so the round never waits for the intent.
	reply    chan roundReply
	answered atomic.Bool
}

// answer answers the intent. It returns false and does nothing if the intent already has an answer.
func (r *roundIntent) answer(reply roundReply) bool {
	if !r.answered.CompareAndSwap(false, true) {
		return false
	}
	r.reply <- reply
	return true
}

// roundReply is a delivery without messages if the round had nothing for the intent.
type roundReply struct {
	delivery queue.Delivery
	// forwarded: the round woke other intents for everything that it found and left.
	forwarded bool
	err       error
}

// worker makes the rounds of the groups whose id selects this worker, one round at a time.
type worker struct {
	d *Dispatcher

	// queue has room for every intent, so no intent waits to join a round.
	queue chan *roundIntent

	// Only the goroutine of run uses the fields below: the number of rounds made, the end of the last round, and the time limit of
	// the next preflight.
	round     uint64
	lastRound time.Time
	limit     time.Duration
}

func newWorker(d *Dispatcher) *worker {
	return &worker{d: d, queue: make(chan *roundIntent, d.cfg.MaxIntentions), limit: d.poll.PreflightTimeout}
}

// joinRound puts the intent into the next round and blocks until its answer. It does not return earlier if the client leaves,
// because the timeouts of the database bound a round. If the client has left, joinRound releases the lease.
func (d *Dispatcher) joinRound(in *intent) (*queue.Delivery, error) {
	r := &roundIntent{intent: in, target: in.target, wake: in.wake, reply: make(chan roundReply, 1)}
	d.workers[uint64(in.target.Group)%uint64(len(d.workers))].queue <- r
	got := <-r.reply
	in.forwarded = got.forwarded
	if got.err != nil {
		return nil, got.err
	}
	return d.releaseIfLeft(in.ctx, &got.delivery)
}

// drain appends the queued intents.
func (w *worker) drain(intents []*roundIntent) []*roundIntent {
	for len(w.queue) > 0 { // only run receives
		intents = append(intents, <-w.queue)
	}
	return intents
}

// run makes rounds until ctx ends. Then it gives the queued intents empty replies.
func (w *worker) run(ctx context.Context) error {
	cleanup := time.NewTicker(max(w.d.cfg.BackoffCleanup/4, time.Second))
	defer cleanup.Stop()
	for {
		select {
		case <-ctx.Done():
			for _, r := range w.drain(nil) {
				r.answer(roundReply{})
			}
			return nil
		case now := <-cleanup.C:
			w.d.backoffs.Forget(now.Add(-w.d.cfg.BackoffCleanup))
		case first := <-w.queue:
			w.pause(ctx)
			w.serve(ctx, w.drain([]*roundIntent{first}))
		}
	}
}

// pause blocks until smart_poll.min_interval has passed since the last round, or ctx ends.
func (w *worker) pause(ctx context.Context) {
	if !w.lastRound.IsZero() {
		_ = backoff.Sleep(ctx, time.Until(w.lastRound.Add(w.d.poll.MinInterval))) // if ctx has ended, the next query fails
	}
}

// serve answers every intent, in as many rounds as needed.
func (w *worker) serve(ctx context.Context, intents []*roundIntent) {
	for len(intents) > 0 {
		w.pause(ctx)
		intents = w.answerWithoutProbe(intents)
		if len(intents) == 0 {
			return
		}
		slices.SortStableFunc(intents, func(a, b *roundIntent) int {
			return cmp.Or(a.deadline.Compare(b.deadline), a.since.Compare(b.since))
		})
		n := min(len(intents), w.d.poll.MaxIntentions)
		w.guard(intents[:n], func() {
			if len(intents) == 1 && (readiness.PartitionOf(intents[0].wake) != 0 || w.isAlone(intents[0])) {
				w.claimDirectly(intents[0])
			} else {
				w.makeRound(ctx, intents[:n])
			}
		})
		intents = intents[n:]
		w.lastRound = time.Now()
	}
}

// isAlone reports whether no second intent waits for the target. It checks two counts, because an intent that waited for the name
// of the target has a ticket for the target before it is registered.
func (w *worker) isAlone(r *roundIntent) bool {
	return w.d.Intents.isAlone(r.intent) && w.d.Readiness.Waiting(r.target) < 2
}

// answerWithoutProbe answers an intent if its client has left, its time is up, or its target is known
// to be empty. It returns the other intents. An announcement removes the known-empty entry before it
// wakes an intent, so an entry that exists now is newer than the wake.
func (w *worker) answerWithoutProbe(intents []*roundIntent) (open []*roundIntent) {
	now := time.Now()
	for _, r := range intents {
		switch {
		case r.ctx.Err() != nil:
			r.answer(roundReply{err: r.ctx.Err()})
		case !now.Before(r.deadline):
			r.answer(roundReply{})
		case w.d.Readiness.KnownEmpty(r.target):
			w.d.Metrics.skipped.WithLabelValues(string(plan.SkipNoPartitions)).Inc()
			r.answer(roundReply{})
		default:
			open = append(open, r)
		}
	}
	return open
}

// roundTarget is one target of a round.
type roundTarget struct {
	target      queue.Target
	observation *readiness.Observation
	// want is how many partitions the intents of the target want together.
	want   int
	result queue.ProbeResult
	// err is why the target could not be probed.
	err error
}

// limit is how many due partitions a preflight lists at most. It is more than want, so that the round sees whether partitions are
// left.
func (t *roundTarget) limit() int { return 2*t.want + 1 }

// due lists the partitions that were due in the preflight.
func (t *roundTarget) due() (partitions []int64) {
	for _, c := range t.result.Candidates {
		if c.In <= 0 && !c.Paused {
			partitions = append(partitions, c.Partition)
		}
	}
	return partitions
}

// sawAll reports whether due lists all partitions that are due.
func (t *roundTarget) sawAll() bool { return len(t.due()) < t.limit() }

// makeRound answers the intents with one preflight and one round trip of claims. If one target or one claim makes a statement
// fail, only the intents of this target or claim get the error.
func (w *worker) makeRound(ctx context.Context, intents []*roundIntent) {
	w.round++
	targets := w.observeTargets(intents)
	w.preflight(ctx, targets, len(intents))
	intents = answerUnservable(intents, targets)
	targets = slices.DeleteFunc(targets, func(t roundTarget) bool { return t.err != nil })
	w.claim(ctx, intents, targets, w.plan(intents, targets))
}

// observeTargets lists the distinct targets of the intents.
func (w *worker) observeTargets(intents []*roundIntent) []roundTarget {
	index := map[queue.Target]int{}
	var targets []roundTarget
	for _, r := range intents {
		i, ok := index[r.target]
		if !ok {
			i = len(targets)
			index[r.target] = i
			targets = append(targets, roundTarget{target: r.target, observation: w.d.Readiness.Observe(r.target)})
		}
		targets[i].want += r.req.Partitions
	}
	return targets
}

// preflight probes the targets with one query and sets their results. A target that makes the query
// fail gets the error.
func (w *worker) preflight(ctx context.Context, targets []roundTarget, intents int) {
	probes := make([]queue.Probe, len(targets))
	for i, t := range targets {
		probes[i] = queue.Probe{Target: t.target, Want: t.limit()}
	}
	w.isolate(len(targets), func(from, to int) error {
		results, err := w.preflightInTime(ctx, probes[from:to], intents)
		for i := range results {
			targets[from+i].result = results[i]
		}
		return err
	}, func(i int, err error) { targets[i].err = err })
}

// preflightInTime makes one preflight. If the query exceeds its time limit, preflightInTime repeats it with twice the limit. So a
// slow database delays the intents but does not starve them.
func (w *worker) preflightInTime(ctx context.Context, probes []queue.Probe, intents int) ([]queue.ProbeResult, error) {
	m := w.d.Metrics
	for {
		started := time.Now()
		results, err := w.d.Store.Preflight(ctx, probes, w.limit)
		m.preflights.Inc()
		m.preflightSeconds.Observe(time.Since(started).Seconds())
		m.preflightIntents.Observe(float64(intents))
		if err == nil {
			if w.limit > w.d.poll.PreflightTimeout {
				w.limit = max(w.limit/2, w.d.poll.PreflightTimeout)
			}
			return results, nil
		}
		if !isTimeout(err) || w.limit >= maxPreflightTimeout || ctx.Err() != nil {
			return nil, err
		}
		m.preflightTimeouts.Inc()
		w.limit = min(2*w.limit, maxPreflightTimeout)
		w.d.Log.Warn("a preflight exceeded smart_poll.preflight_timeout; the next one has twice the time",
			zap.Int("targets", len(probes)), zap.Duration("next_limit", w.limit))
	}
}

// isTimeout reports whether a query exceeded its limit on the server.
func isTimeout(err error) bool {
	var coded *queue.Error
	return errors.As(err, &coded) && coded.Timeout
}

// answerUnservable answers an intent if its client has left, or its target was deleted or could not be probed. It returns the other
// intents. The plan must not contain an answered intent: another intent may want the partition, and the id of a
// deleted target may now belong to another group.
func answerUnservable(intents []*roundIntent, targets []roundTarget) (open []*roundIntent) {
	probed := map[queue.Target]roundTarget{}
	for _, t := range targets {
		probed[t.target] = t
	}
	for _, r := range intents {
		t := probed[r.target]
		switch err := cmp.Or(r.ctx.Err(), t.err); {
		case err != nil:
			r.answer(roundReply{err: err})
		case t.result.Gone:
			r.answer(roundReply{delivery: queue.Delivery{Gone: true}})
		default:
			open = append(open, r)
		}
	}
	return open
}

// plan decides which intent gets which partition. There is one decision for each intent, in the
// same order.
func (w *worker) plan(waiting []*roundIntent, targets []roundTarget) []plan.Decision {
	now := time.Now()
	intents := make([]plan.Intent, len(waiting))
	for i, r := range waiting {
		intents[i] = plan.Intent{
			Key:        plan.Key{Group: r.target.Group, Partition: r.target.Partition},
			Partitions: r.req.Partitions, Deadline: r.deadline,
		}
	}
	candidates, due := mergeCandidates(now, targets)
	decisions, doubled := plan.Assign(now, w.round, intents, candidates)
	m := w.d.Metrics
	m.partitionsFound.Observe(float64(due))
	m.doubleAssignments.Add(float64(doubled))
	for i := range decisions {
		if decisions[i].Outcome == plan.ViableAssigned {
			m.viable.Inc()
			m.assignments.Add(float64(len(decisions[i].Partitions)))
		} else {
			m.skipped.WithLabelValues(string(decisions[i].Outcome)).Inc()
		}
	}
	m.ratio.Set(float64(len(waiting)) / float64(max(1, len(targets))))
	return decisions
}

// mergeCandidates makes one list of the candidates of all targets. A partition that was found both as a target and in its group
// is one candidate. due counts the candidates that are due now.
func mergeCandidates(now time.Time, targets []roundTarget) (candidates []plan.Candidate, due int) {
	seen := map[queue.Target]bool{}
	for _, t := range targets {
		for _, c := range t.result.Candidates {
			partition := queue.Target{Group: t.target.Group, Partition: c.Partition}
			if seen[partition] {
				continue
			}
			seen[partition] = true
			if c.In <= 0 {
				due++
			}
			candidates = append(candidates, plan.Candidate{
				Group: partition.Group, Partition: partition.Partition, ReadyAt: now.Add(c.In), Depth: c.Depth,
				Leased: c.In > 0 && c.Leased, WindowOpen: c.In > 0 && c.WindowOpen,
				Delayed: c.In > 0 && !c.Leased && !c.WindowOpen, Paused: c.Paused, Limited: c.In <= 0 && t.result.Limited,
			})
		}
	}
	return candidates, due
}
