package dispatch

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/plan"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// maxPreflightTimeout caps the time a preflight is given after others took too
// long.
const maxPreflightTimeout = 5 * time.Second

// ask is an intent that wants to know whether there is something for it.
type ask struct {
	in     *intent
	target queue.Target
	// reply receives exactly one answer; it is buffered, so the round never
	// waits for the request.
	reply chan answer
}

type answer struct {
	delivery queue.Delivery
	err      error
}

// worker makes the rounds of the groups that hash to it, one at a time.
type worker struct {
	d *Dispatcher

	mu   sync.Mutex
	asks []*ask
	// asked receives when asks may have become non-empty; one signal stands for
	// many.
	asked chan struct{}

	// round, last and limit are the loop's own: the number of rounds made, when
	// the last one ended, and what the next preflight may take.
	round uint64
	last  time.Time
	limit time.Duration
}

func newWorker(d *Dispatcher) *worker {
	return &worker{d: d, asked: make(chan struct{}, 1), limit: d.poll.PreflightTimeout}
}

// ask puts the intent into the next round and waits for its answer. A client
// that leaves meanwhile is noticed at the answer: the round is bounded by the
// database's timeouts, and whatever it claimed for nobody is released here.
func (d *Dispatcher) ask(in *intent) (*queue.Delivery, error) {
	a := &ask{in: in, target: in.target, reply: make(chan answer, 1)}
	d.workers[uint64(in.target.Group)%uint64(len(d.workers))].add(a)
	got := <-a.reply
	if got.err != nil {
		return nil, got.err
	}
	if err := in.ctx.Err(); err != nil {
		d.Release(in.ctx, &got.delivery)
		return nil, err
	}
	return &got.delivery, nil
}

func (w *worker) add(a *ask) {
	w.mu.Lock()
	w.asks = append(w.asks, a)
	w.mu.Unlock()
	raise(w.asked)
}

func (w *worker) take() []*ask {
	w.mu.Lock()
	defer w.mu.Unlock()
	asks := w.asks
	w.asks = nil
	return asks
}

// run makes rounds until ctx ends, and answers what is left with nothing.
func (w *worker) run(ctx context.Context) error {
	cleanup := time.NewTicker(max(w.d.cfg.BackoffCleanup/4, time.Second))
	defer cleanup.Stop()
	for {
		select {
		case <-ctx.Done():
			for _, a := range w.take() {
				a.reply <- answer{}
			}
			return nil
		case now := <-cleanup.C:
			w.d.backoffs.forget(now.Add(-w.d.cfg.BackoffCleanup))
			continue
		case <-w.asked:
		}
		w.pause(ctx)
		w.answer(ctx, w.take())
	}
}

// pause waits until smart_poll.min_interval has passed since the last round, or
// ctx ends.
func (w *worker) pause(ctx context.Context) {
	if next := w.last.Add(w.d.poll.MinInterval); !w.last.IsZero() && time.Now().Before(next) {
		sleepUntil(ctx, next, nil)
	}
}

// answer gives every ask its answer, in as many rounds as it takes.
func (w *worker) answer(ctx context.Context, asks []*ask) {
	for len(asks) > 0 {
		asks = w.answerKnown(asks)
		if len(asks) == 0 {
			return
		}
		slices.SortStableFunc(asks, func(a, b *ask) int {
			return cmp.Or(a.in.deadline.Compare(b.in.deadline), a.in.since.Compare(b.in.since))
		})
		n := min(len(asks), w.d.poll.MaxIntentions)
		w.pause(ctx)
		if len(asks) == 1 && w.d.intents.alone(asks[0].target) {
			w.claimAlone(asks[0])
		} else {
			w.makeRound(ctx, asks[:n])
		}
		asks = asks[n:]
		w.last = time.Now()
	}
}

// answerKnown answers those whose clients have left and those for whom nothing
// is known to be there since they asked: a fact is dropped by the announcement
// that woke them, so one that stands is newer.
func (w *worker) answerKnown(asks []*ask) (open []*ask) {
	now := time.Now()
	for _, a := range asks {
		until, known := w.d.facts.empty(targetKey(a.target), now)
		switch {
		case a.in.ctx.Err() != nil:
			a.reply <- answer{err: a.in.ctx.Err()}
		case known:
			w.d.metrics.skipped.WithLabelValues(string(plan.SkipNoPartitions)).Inc()
			w.d.scheduleNext(a.target, until)
			a.reply <- answer{}
		default:
			open = append(open, a)
		}
	}
	return open
}

// look is one target of a round.
type look struct {
	target queue.Target
	fact   *fact
	want   int
}

// makeRound answers asks with one preflight and one round trip of claims.
func (w *worker) makeRound(ctx context.Context, asks []*ask) {
	w.round++
	looks, probes := w.probes(asks)
	findings, err := w.preflight(ctx, probes, len(asks))
	if err != nil {
		for _, a := range asks {
			a.reply <- answer{err: err}
		}
		return
	}
	asks = living(present(asks), looks, findings)
	w.claim(ctx, asks, looks, findings, w.plan(asks, looks, findings))
}

// present answers those whose clients have left, so that nothing is planned for
// them that others are waiting for.
func present(asks []*ask) []*ask {
	here := make([]*ask, 0, len(asks))
	for _, a := range asks {
		if err := a.in.ctx.Err(); err != nil {
			a.reply <- answer{err: err}
			continue
		}
		here = append(here, a)
	}
	return here
}

// living answers those whose target is gone, so that nothing is planned for them: what has
// its id now may be somebody else's.
func living(asks []*ask, looks []look, findings []queue.ProbeResult) []*ask {
	gone := map[queue.Target]bool{}
	for i, f := range findings {
		gone[looks[i].target] = f.Gone
	}
	return slices.DeleteFunc(asks, func(a *ask) bool {
		if !gone[a.target] {
			return false
		}
		a.reply <- answer{delivery: queue.Delivery{Gone: true}}
		return true
	})
}

// probes lists the distinct targets of asks, each with a fact begun before the
// preflight.
func (w *worker) probes(asks []*ask) ([]look, []queue.Probe) {
	at := map[queue.Target]int{}
	var looks []look
	for _, a := range asks {
		i, ok := at[a.target]
		if !ok {
			i = len(looks)
			at[a.target] = i
			looks = append(looks, look{target: a.target, fact: w.d.facts.begin(targetKey(a.target))})
		}
		looks[i].want += a.in.req.Partitions
	}
	probes := make([]queue.Probe, len(looks))
	for i, l := range looks {
		// One more than wanted says whether something is left over.
		probes[i] = queue.Probe{Target: l.target, Want: l.want + 1}
	}
	return looks, probes
}

// preflight runs the query. One that exceeds its limit is made again with twice
// the time, so that a slow database delays but never starves.
func (w *worker) preflight(ctx context.Context, probes []queue.Probe, asks int) ([]queue.ProbeResult, error) {
	m := w.d.metrics
	for {
		started := time.Now()
		findings, err := w.d.store.Preflight(ctx, probes, w.limit)
		m.preflights.Inc()
		m.preflightSeconds.Observe(time.Since(started).Seconds())
		m.preflightIntents.Observe(float64(asks))
		if err == nil {
			if w.limit > w.d.poll.PreflightTimeout {
				w.limit = max(w.limit/2, w.d.poll.PreflightTimeout)
			}
			return findings, nil
		}
		if !w.d.isTimeout(err) || w.limit >= maxPreflightTimeout || ctx.Err() != nil {
			return nil, err
		}
		m.preflightTimeouts.Inc()
		w.limit = min(2*w.limit, maxPreflightTimeout)
		w.d.log.Warn("a preflight exceeded smart_poll.preflight_timeout; the next one has twice the time",
			zap.Int("targets", len(probes)), zap.Duration("next_limit", w.limit))
	}
}

// plan decides who gets which partition.
func (w *worker) plan(asks []*ask, looks []look, findings []queue.ProbeResult) []plan.Decision {
	now := time.Now()
	intents := make([]plan.Intent, len(asks))
	for i, a := range asks {
		intents[i] = plan.Intent{
			ID: int64(i), Key: plan.Key{Group: a.target.Group, Partition: a.target.Partition},
			Partitions: a.in.req.Partitions, Deadline: a.in.deadline, Since: a.in.since,
		}
	}
	candidates, found := merge(now, looks, findings)
	decisions, doubled := plan.Assign(now, w.round, intents, candidates)
	m := w.d.metrics
	m.partitionsFound.Observe(float64(found))
	m.doubleAssignments.Add(float64(doubled))
	for i := range decisions {
		if decisions[i].Outcome == plan.ViableAssigned {
			m.viable.Inc()
			m.assignments.Add(float64(len(decisions[i].Partitions)))
		} else {
			m.skipped.WithLabelValues(string(decisions[i].Outcome)).Inc()
		}
	}
	m.ratio.Set(float64(len(asks)) / float64(max(1, len(looks))))
	return decisions
}

// merge makes one list of candidates. A partition found for its own sake and
// for its group's is one candidate.
func merge(now time.Time, looks []look, findings []queue.ProbeResult) (candidates []plan.Candidate, due int) {
	seen := map[queue.Target]bool{}
	for i, f := range findings {
		for _, c := range f.Candidates {
			one := queue.Target{Group: looks[i].target.Group, Partition: c.Partition}
			if seen[one] {
				continue
			}
			seen[one] = true
			if c.In <= 0 {
				due++
			}
			candidates = append(candidates, plan.Candidate{
				Group: one.Group, Partition: one.Partition, ReadyAt: now.Add(c.In), Depth: c.Depth,
				Leased: c.In > 0 && c.Leased, WindowOpen: c.In > 0 && c.WindowOpen,
				Delayed: c.In > 0 && !c.Leased && !c.WindowOpen, Paused: c.Paused,
			})
		}
	}
	return candidates, due
}
