package dispatch

import (
	"cmp"
	"context"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/belfry-mq/belfry/pkg/dispatch/readiness"
	"github.com/belfry-mq/belfry/pkg/process/backoff"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Store has the calls of the database that pops need.
type Store interface {
	// Resolve returns the target of a pop. ok is false if the queue or partition does not exist. joining: the group still joins the
	// queue. Then a Preflight or a Claim may find nothing although messages are due.
	Resolve(ctx context.Context, req *queue.PopRequest) (target queue.Target, joining, ok bool, err error)
	// Forget drops a resolved target that does not exist any more.
	Forget(req *queue.PopRequest, deleted queue.Target)
	// Pop makes one claim for one request.
	Pop(ctx context.Context, req *queue.PopRequest) (queue.Delivery, error)
	// Preflight probes many targets with one read-only query.
	Preflight(ctx context.Context, probes []queue.Probe, limit time.Duration) ([]queue.ProbeResult, error)
	// Claim makes the claims of one round.
	Claim(ctx context.Context, assignments []queue.Assignment) ([]queue.Delivery, error)
	// Release ends a lease that was not used.
	Release(ctx context.Context, lease queue.ID) error
}

// Deps are the dependencies of a Dispatcher.
type Deps struct {
	Store Store
	// Intents is shared with the store, which hands pushed messages over to waiting requests.
	Intents *Intents
	// Readiness is shared with the SQL waiters. The Dispatcher announces ready partitions to it.
	Readiness *readiness.Tracker
	Events    *events.Bus // wake the waiting requests
	// Proven reports whether the notifications of other instances arrive.
	Proven func() bool
	// Paused returns nil. During pop maintenance it returns a channel that is closed when maintenance ends.
	Paused func() <-chan struct{}
	// NextRevocation returns a channel that is closed when the rights of some waiting requests may have ended before their
	// RightsEnd. Nil: rights never end before RightsEnd.
	NextRevocation func() <-chan struct{}
	Metrics        *Metrics
	Log            *zap.Logger
}

const (
	// A waiting pop is answered a little before its timeout ends: at most answerEarlyMax earlier, and at most the share
	// answerEarly of the timeout earlier.
	answerEarly    = 0.05
	answerEarlyMax = 250 * time.Millisecond
)

// Dispatcher answers pops. It is safe for concurrent use.
type Dispatcher struct {
	events.Nop
	Deps
	cfg  Config
	poll SmartPoll

	// backoff and fallback are the delays of probes without a wake.
	backoff, fallback backoff.Policy
	backoffs          *backoff.Counters[queue.Target]
	workers           []*worker
	// delayedRefusals has an element for each refused request whose answer is delayed.
	delayedRefusals chan struct{}

	stopOnce sync.Once
	stopping chan struct{}
}

// New returns a Dispatcher and subscribes it to the events. Run makes its rounds. Stop ends the waits.
func New(deps Deps, cfg Config, poll SmartPoll) *Dispatcher {
	d := &Dispatcher{
		Deps: deps, cfg: cfg, poll: poll,
		backoff: cfg.Backoff(), fallback: cfg.Fallback(), backoffs: backoff.NewCounters[queue.Target](),
		delayedRefusals: make(chan struct{}, cfg.maxDelayedRefusals()), stopping: make(chan struct{}),
	}
	for range cfg.PollWorkers {
		d.workers = append(d.workers, newWorker(d))
	}
	deps.Intents.use(deps.Readiness, cfg.MaxIntentions)
	deps.Metrics.observe(d)
	deps.Events.Subscribe(d)
	return d
}

// Run makes the rounds, and ends the waits of requests whose rights were revoked, until ctx ends. Then it returns
// nil. Call Stop before ctx ends.
func (d *Dispatcher) Run(ctx context.Context) error {
	rounds, ctx := errgroup.WithContext(ctx)
	if d.NextRevocation != nil {
		rounds.Go(func() error { return d.endRevoked(ctx) })
	}
	for _, w := range d.workers {
		rounds.Go(func() error { return w.run(ctx) })
	}
	return rounds.Wait()
}

// Waiting returns how many requests wait now.
func (d *Dispatcher) Waiting() int { return d.Intents.count() }

// Stop ends the wait of every request at once. Later requests make one probe and do not wait. Stop does not block.
func (d *Dispatcher) Stop() { d.stopOnce.Do(func() { close(d.stopping) }) }

// Pop claims once. With req.Wait it waits and probes again. The wait ends when Pop has claimed messages, the time is up, or ctx
// ends (the client left). It also ends when the rights of the sender end, or Stop is called. A Delivery without messages means
// that nothing was poppable.
//
// During pop maintenance Pop does not probe. Without req.Wait it answers at once without messages. With req.Wait it waits for the
// end of maintenance and then probes. If the time is up before maintenance ends, Pop answers without messages.
//
// Errors:
//
//   - every error of the Store
//   - CodeOverloaded if too many requests wait, after about a second (see refuse)
//   - the error of req.Valid if the rights have ended
//   - ctx.Err() if the client left
//
// In the last two cases Pop releases the claimed messages.
func (d *Dispatcher) Pop(ctx context.Context, req *queue.PopRequest) (*queue.Delivery, error) {
	if req.Wait <= 0 {
		if d.Paused() != nil {
			return &queue.Delivery{Queue: req.Queue, Group: req.Group}, nil
		}
		return d.popOnce(ctx, req)
	}
	in := newIntent(ctx, req)
	if why := d.Intents.enter(in); why != admitted {
		return nil, d.refuse(ctx, req, why)
	}
	defer d.end(in)
	over, err := d.hold(in)
	if !over && err == nil {
		err = d.wait(in)
	}
	if err == nil && len(in.delivery.Messages) == 0 {
		err = cmp.Or(in.delivery.Lost, req.Valid())
	}
	if err != nil {
		return nil, err
	}
	return &in.delivery, nil
}

// popOnce makes one claim. If the client has left meanwhile, it releases the lease.
func (d *Dispatcher) popOnce(ctx context.Context, req *queue.PopRequest) (*queue.Delivery, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	delivery, err := d.Store.Pop(ctx, req)
	if err != nil {
		return nil, err
	}
	return d.releaseIfLeft(ctx, &delivery)
}

// releaseIfLeft returns the delivery, or releases it and returns ctx.Err() if the client left.
func (d *Dispatcher) releaseIfLeft(ctx context.Context, delivery *queue.Delivery) (*queue.Delivery, error) {
	if err := ctx.Err(); err != nil {
		d.Release(ctx, delivery)
		return nil, err
	}
	return delivery, nil
}

// Release ends the lease of a delivery that did not reach its client. It blocks for one statement, at most for the timeout of the
// database. If the statement fails, Release logs the error, and the lease ends when it expires.
func (d *Dispatcher) Release(ctx context.Context, delivery *queue.Delivery) {
	if delivery.LeaseID.IsZero() || len(delivery.Messages) == 0 {
		return
	}
	if err := d.Store.Release(ctx, delivery.LeaseID); err != nil {
		d.Log.Warn("releasing a lease failed; it will expire", zap.Stringer("lease_id", delivery.LeaseID),
			zap.String("queue", delivery.Queue), zap.Error(err))
	}
}

// These constants are the sources of a wake, as labels of the metrics. notify.ByTimer is one more source: a partition became due
// at a known instant.
const (
	wakeArrival  = "arrival"  // the request has just arrived
	wakeLocal    = "local"    // an event of this instance
	wakeNotify   = "notify"   // an event of another instance or of a SQL session
	wakeHandoff  = "handoff"  // a push of this instance claimed for the request
	wakeSweep    = "sweep"    // a resync
	wakeFallback = "fallback" // the fallback timer
)

// OnReady wakes the intents that wait for these partitions or their groups.
func (d *Dispatcher) OnReady(ready []queue.Ready, from events.Origin) {
	source, announce := wakeLocal, d.Readiness.Ready
	if from != events.Here {
		source, announce = wakeNotify, d.Readiness.Notified
	}
	woken := announce(ready, source)
	d.Metrics.announced.WithLabelValues(source).Add(float64(len(ready)))
	d.Metrics.woken.WithLabelValues(source).Add(float64(woken))
}

// OnCreated wakes one intent for each created name that intents wait for. A peer does not send the name, so OnCreated then wakes
// an intent for every name.
func (d *Dispatcher) OnCreated(queueName, partition string, from events.Origin) {
	if from == events.Here {
		woken := d.Readiness.Created(queueName, partition, wakeLocal)
		d.Metrics.woken.WithLabelValues(wakeLocal).Add(float64(woken))
		return
	}
	woken := d.Readiness.CreatedUnnamed(wakeNotify)
	d.Metrics.woken.WithLabelValues(wakeNotify).Add(float64(woken))
}

// endRevoked ends the waits of intents whose rights were revoked, until ctx ends. It returns nil.
func (d *Dispatcher) endRevoked(ctx context.Context) error {
	for {
		revocation := d.NextRevocation()
		d.Intents.endRevoked()
		select {
		case <-revocation:
		case <-ctx.Done():
			return nil
		}
	}
}

// OnResync forgets which targets are empty, and makes every intent probe.
func (d *Dispatcher) OnResync(reason string, _ events.Origin) {
	woken := d.Readiness.Resync(wakeSweep)
	d.Metrics.woken.WithLabelValues(wakeSweep).Add(float64(woken))
	d.Log.Debug("a resync woke all waiting requests", zap.String("reason", reason), zap.Int("woken", woken))
}
