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

// maxPreflightTimeout is the most time that a preflight is given after others took too long.
const maxPreflightTimeout = 5 * time.Second

// roundRequest is an intent that wants to be part of the next round.
type roundRequest struct {
	*intent
	// target and wake are what the intent waited for and its wake when it joined. The intent changes
	// its own as soon as it has the answer.
	target queue.Target
	wake   readiness.Wake
	// reply receives exactly one answer. It is buffered, so the round never waits for the request.
	reply    chan roundReply
	answered atomic.Bool
}

// answer answers the request. It returns false and does nothing if the request has an answer.
func (r *roundRequest) answer(reply roundReply) bool {
	if !r.answered.CompareAndSwap(false, true) {
		return false
	}
	r.reply <- reply
	return true
}

// roundReply is a delivery without messages if the round had nothing for the intent.
type roundReply struct {
	delivery queue.Delivery
	// forwarded: others were woken for all that the round saw and left.
	forwarded bool
	err       error
}

// worker makes the rounds of the groups that hash to it, one at a time.
type worker struct {
	d *Dispatcher

	// queue has room for every waiting request, so no request waits to join a round.
	queue chan *roundRequest

	// The loop owns the rest: the number of rounds made, when the last one ended, and the limit of
	// the next preflight.
	round     uint64
	lastRound time.Time
	limit     time.Duration
}

func newWorker(d *Dispatcher) *worker {
	return &worker{d: d, queue: make(chan *roundRequest, d.cfg.MaxIntentions), limit: d.poll.PreflightTimeout}
}

// joinRound puts the intent into the next round and blocks until its answer. It does not watch the
// client meanwhile, because the timeouts of the database bound a round. If the client left, the
// lease is released.
func (d *Dispatcher) joinRound(in *intent) (*queue.Delivery, error) {
	r := &roundRequest{intent: in, target: in.target, wake: in.wake, reply: make(chan roundReply, 1)}
	d.workers[uint64(in.target.Group)%uint64(len(d.workers))].queue <- r
	got := <-r.reply
	in.forwarded = got.forwarded
	if got.err != nil {
		return nil, got.err
	}
	return d.releaseIfLeft(in.ctx, &got.delivery)
}

// drain appends the queued requests.
func (w *worker) drain(requests []*roundRequest) []*roundRequest {
	for len(w.queue) > 0 { // only the loop receives
		requests = append(requests, <-w.queue)
	}
	return requests
}

// run makes rounds until ctx ends. Then it answers the queued requests with nothing.
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
			w.serve(ctx, w.drain([]*roundRequest{first}))
		}
	}
}

// pause blocks until smart_poll.min_interval has passed since the last round, or ctx ends.
func (w *worker) pause(ctx context.Context) {
	if !w.lastRound.IsZero() {
		_ = backoff.Sleep(ctx, time.Until(w.lastRound.Add(w.d.poll.MinInterval))) // the next query notices the end of ctx
	}
}

// serve answers every request, in as many rounds as needed.
func (w *worker) serve(ctx context.Context, requests []*roundRequest) {
	for len(requests) > 0 {
		w.pause(ctx)
		requests = w.answerWithoutProbe(requests)
		if len(requests) == 0 {
			return
		}
		slices.SortStableFunc(requests, func(a, b *roundRequest) int {
			return cmp.Or(a.deadline.Compare(b.deadline), a.since.Compare(b.since))
		})
		n := min(len(requests), w.d.poll.MaxIntentions)
		w.guard(requests[:n], func() {
			if len(requests) == 1 && (readiness.PartitionOf(requests[0].wake) != 0 || w.isAlone(requests[0])) {
				w.claimDirectly(requests[0])
			} else {
				w.makeRound(ctx, requests[:n])
			}
		})
		requests = requests[n:]
		w.lastRound = time.Now()
	}
}

// isAlone reports whether no second request waits for the target. A request that waited for the name of
// the target has a ticket for it before it is registered.
func (w *worker) isAlone(r *roundRequest) bool {
	return w.d.Intents.isAlone(r.intent) && w.d.Readiness.Waiting(r.target) < 2
}

// answerWithoutProbe answers a request if its client has left, its time is up, or its target is known
// to be empty. It returns the other requests. An announcement removes the known-empty entry before it
// wakes a request, so an entry that exists now is newer than the wake.
func (w *worker) answerWithoutProbe(requests []*roundRequest) (open []*roundRequest) {
	now := time.Now()
	for _, r := range requests {
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
	// want is how many partitions the requests of the target want together.
	want   int
	result queue.ProbeResult
	// err is why the target could not be probed.
	err error
}

// limit is how many due partitions a preflight lists: more than are wanted, to see whether some are left.
func (t *roundTarget) limit() int { return 2*t.want + 1 }

// due lists the partitions that the preflight saw due.
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

// makeRound answers the requests with one preflight and one round trip of claims. If one target or one
// claim makes these fail, its requests alone get the error.
func (w *worker) makeRound(ctx context.Context, requests []*roundRequest) {
	w.round++
	targets := w.observeTargets(requests)
	w.preflight(ctx, targets, len(requests))
	requests = answerUnservable(requests, targets)
	targets = slices.DeleteFunc(targets, func(t roundTarget) bool { return t.err != nil })
	w.claim(ctx, requests, targets, w.plan(requests, targets))
}

// observeTargets lists the distinct targets of the requests.
func (w *worker) observeTargets(requests []*roundRequest) []roundTarget {
	index := map[queue.Target]int{}
	var targets []roundTarget
	for _, r := range requests {
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
func (w *worker) preflight(ctx context.Context, targets []roundTarget, requests int) {
	probes := make([]queue.Probe, len(targets))
	for i, t := range targets {
		probes[i] = queue.Probe{Target: t.target, Want: t.limit()}
	}
	w.isolate(len(targets), func(from, to int) error {
		results, err := w.preflightInTime(ctx, probes[from:to], requests)
		for i := range results {
			targets[from+i].result = results[i]
		}
		return err
	}, func(i int, err error) { targets[i].err = err })
}

// preflightInTime makes one preflight. A query that exceeds its limit is repeated with twice the time,
// so a slow database delays the requests but does not starve them.
func (w *worker) preflightInTime(ctx context.Context, probes []queue.Probe, requests int) ([]queue.ProbeResult, error) {
	m := w.d.Metrics
	for {
		started := time.Now()
		results, err := w.d.Store.Preflight(ctx, probes, w.limit)
		m.preflights.Inc()
		m.preflightSeconds.Observe(time.Since(started).Seconds())
		m.preflightIntents.Observe(float64(requests))
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

// answerUnservable answers a request if its client has left, or its target is gone or could not be
// probed. It returns the other requests. Nothing is planned for an answered request: another request
// may want the partition, and the id of a target that is gone may now belong to another group.
func answerUnservable(requests []*roundRequest, targets []roundTarget) (open []*roundRequest) {
	probed := map[queue.Target]roundTarget{}
	for _, t := range targets {
		probed[t.target] = t
	}
	for _, r := range requests {
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
