package dispatch

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/backoff"
	"github.com/belfry-mq/belfry/pkg/plan"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/pkg/readiness"
)

// maxPreflightTimeout is the most time that a preflight is given after others took too long.
const maxPreflightTimeout = 5 * time.Second

// roundRequest is an intent that wants to be part of the next round.
type roundRequest struct {
	*intent
	// reply receives exactly one answer. It is buffered, so the round never waits for the request.
	reply chan roundReply
}

// roundReply is a delivery without messages if the round had nothing for the intent.
type roundReply struct {
	delivery queue.Delivery
	err      error
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
	r := &roundRequest{intent: in, reply: make(chan roundReply, 1)}
	d.workers[uint64(in.target.Group)%uint64(len(d.workers))].queue <- r
	got := <-r.reply
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
				r.reply <- roundReply{}
			}
			return nil
		case now := <-cleanup.C:
			w.d.backoffs.forget(now.Add(-w.d.cfg.BackoffCleanup))
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
		requests = w.answerWithoutProbe(requests)
		if len(requests) == 0 {
			return
		}
		slices.SortStableFunc(requests, func(a, b *roundRequest) int {
			return cmp.Or(a.deadline.Compare(b.deadline), a.since.Compare(b.since))
		})
		n := min(len(requests), w.d.poll.MaxIntentions)
		w.pause(ctx)
		if len(requests) == 1 && w.d.Intents.isAlone(requests[0].intent) {
			w.claimDirectly(requests[0])
		} else {
			w.makeRound(ctx, requests[:n])
		}
		requests = requests[n:]
		w.lastRound = time.Now()
	}
}

// answerWithoutProbe answers a request if its client has left or its target is known to be empty. It
// returns the other requests. An announcement removes the known-empty entry before it wakes
// a request, so an entry that exists now is newer than the wake.
func (w *worker) answerWithoutProbe(requests []*roundRequest) (open []*roundRequest) {
	for _, r := range requests {
		switch {
		case r.ctx.Err() != nil:
			r.reply <- roundReply{err: r.ctx.Err()}
		case w.d.Readiness.KnownEmpty(r.target):
			w.d.Metrics.skipped.WithLabelValues(string(plan.SkipNoPartitions)).Inc()
			r.reply <- roundReply{}
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
}

// makeRound answers the requests with one preflight and one round trip of claims.
func (w *worker) makeRound(ctx context.Context, requests []*roundRequest) {
	w.round++
	targets := w.observeTargets(requests)
	if err := w.preflight(ctx, targets, len(requests)); err != nil {
		for _, r := range requests {
			r.reply <- roundReply{err: err}
		}
		return
	}
	requests = answerUnservable(requests, targets)
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

// preflight probes the targets with one query and sets their results. A query that exceeds its limit
// is repeated with twice the time, so a slow database delays the requests but does not starve them.
func (w *worker) preflight(ctx context.Context, targets []roundTarget, requests int) error {
	probes := make([]queue.Probe, len(targets))
	for i, t := range targets {
		// One more than wanted shows whether something is left over.
		probes[i] = queue.Probe{Target: t.target, Want: t.want + 1}
	}
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
			for i := range targets {
				targets[i].result = results[i]
			}
			return nil
		}
		if !isTimeout(err) || w.limit >= maxPreflightTimeout || ctx.Err() != nil {
			return err
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

// answerUnservable answers a request if its client has left or its target is gone. It returns the
// other requests. Nothing is planned for an answered request: another request may want the
// partition, and the id of a target that is gone may now belong to another group.
func answerUnservable(requests []*roundRequest, targets []roundTarget) (open []*roundRequest) {
	gone := map[queue.Target]bool{}
	for _, t := range targets {
		gone[t.target] = t.result.Gone
	}
	for _, r := range requests {
		err := r.ctx.Err()
		switch {
		case err != nil:
			r.reply <- roundReply{err: err}
		case gone[r.target]:
			r.reply <- roundReply{delivery: queue.Delivery{Gone: true}}
		default:
			open = append(open, r)
		}
	}
	return open
}
