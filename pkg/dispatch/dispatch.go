package dispatch

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/belfry-mq/belfry/pkg/backoff"
	"github.com/belfry-mq/belfry/pkg/events"
	"github.com/belfry-mq/belfry/pkg/notify"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Store is what a waiting request needs of the database.
type Store interface {
	// Resolve returns what a pop claims from; ok is false when it does not exist.
	Resolve(ctx context.Context, req *queue.PopRequest) (target queue.Target, ok bool, err error)
	// Find is Resolve that registers nothing: registered is false when the group is
	// not there yet.
	Find(ctx context.Context, req *queue.PopRequest) (target queue.Target, registered, ok bool, err error)
	// Forget drops a resolved target that is gone.
	Forget(req *queue.PopRequest, gone queue.Target)
	// Pop looks once, on its own.
	Pop(ctx context.Context, req *queue.PopRequest) (queue.Delivery, error)
	// Preflight looks for many targets with one read-only query.
	Preflight(ctx context.Context, probes []queue.Probe, limit time.Duration) ([]queue.ProbeResult, error)
	// Claim makes the claims of one round.
	Claim(ctx context.Context, assignments []queue.Assignment) ([]queue.Delivery, error)
	// Release gives a lease back that was not used.
	Release(ctx context.Context, lease queue.ID) error
	// Settle puts cursors of a group to sleep that are due with nothing behind them.
	Settle(ctx context.Context, group int64, partitions []int64)
	// Tell notifies the consumers in SQL that listen on channel.
	Tell(ctx context.Context, channel string) error
}

// Deps are what a Dispatcher works with.
type Deps struct {
	Store Store
	// Intents are shared with the store, which hands pushed messages over to them.
	Intents *Intents
	// Events reach the waiting requests from it.
	Events *events.Bus
	// Proven says whether the notifications of other instances are being heard.
	Proven  func() bool
	Metrics *Metrics
	Log     *zap.Logger
}

const (
	// answerEarly is the share of its timeout by which a waiting pop is
	// answered early, and answerEarlyMax the most that may be.
	answerEarly    = 0.05
	answerEarlyMax = 250 * time.Millisecond
	// overloadRetry is what a request beyond the bound is told to wait.
	overloadRetry = time.Second
)

// key is what a waiting request can be woken by: a group (any partition), one
// partition of it, or a name that does not exist yet.
type key struct {
	target queue.Target
	name   string
}

// targetKey wakes those who wait for t. Announcements do not tell the life of the
// database, and to wake somebody in vain does no harm.
func targetKey(t queue.Target) key {
	t.Epoch = 0
	return key{target: t}
}

// anyBirth wakes everybody who waits for something that does not exist yet.
var anyBirth = key{name: "*"}

// tagKey wakes the pops by the same tags. It has two NULs more than the key of a
// birth, also that of the queue without a name.
func tagKey(req *queue.PopRequest) key {
	return key{name: "\x00" + req.Tags.Namespace + "\x00" + req.Tags.Task + "\x00" + req.Group}
}

func birthKey(queueName, partition string) key {
	return key{name: queueName + "\x00" + partition}
}

// Dispatcher answers pops. It is safe for concurrent use.
type Dispatcher struct {
	events.Nop
	store   Store
	proven  func() bool
	log     *zap.Logger
	cfg     Config
	poll    SmartPoll
	policy  backoff.Policy
	metrics *Metrics

	notifier *notify.Notifier[key]
	facts    *facts
	backoffs *backoffs
	workers  []*worker
	waiting  atomic.Int64
	intents  *Intents
	wishes   *wishes

	stopOnce sync.Once
	stopping chan struct{}
}

// New returns a Dispatcher; Run makes its rounds. Stop ends the waiting of its
// requests.
func New(deps Deps, cfg Config, poll SmartPoll) *Dispatcher {
	d := &Dispatcher{
		store: deps.Store, proven: deps.Proven, log: deps.Log, cfg: cfg, poll: poll, metrics: deps.Metrics,
		policy: backoff.Policy{
			Initial: cfg.PollInterval, Max: cfg.MaxPollInterval,
			Threshold: cfg.BackoffThreshold, Multiplier: cfg.BackoffMultiplier,
		},
		notifier: notify.New[key](), facts: newFacts(cfg.FallbackInterval), backoffs: newBackoffs(), intents: deps.Intents, wishes: newWishes(),
		stopping: make(chan struct{}),
	}
	for range cfg.PollWorkers {
		d.workers = append(d.workers, newWorker(d))
	}
	deps.Metrics.observe(d)
	deps.Events.Subscribe(d)
	return d
}

// Run makes the rounds until ctx ends, then returns nil. Waiting requests must
// have been told to Stop before.
func (d *Dispatcher) Run(ctx context.Context) error {
	defer d.notifier.Close()
	rounds, ctx := errgroup.WithContext(ctx)
	for _, w := range d.workers {
		rounds.Go(func() error { return w.run(ctx) })
	}
	rounds.Go(func() error { return d.attend(ctx) })
	return rounds.Wait()
}

// Waiting returns how many requests are waiting now.
func (d *Dispatcher) Waiting() int { return int(d.waiting.Load()) }

// Stop makes every waiting request answer now, and later ones answer after one
// look. It does not block.
func (d *Dispatcher) Stop() { d.stopOnce.Do(func() { close(d.stopping) }) }

// Pop looks, and with req.Wait waits and looks again, until something was
// claimed, the time is up, ctx ends (the client left) or Stop was called. A
// Delivery without messages means that nothing was poppable.
//
// Errors: those of the Store, CodeOverloaded beyond the bound, and ctx.Err()
// when the client left; then whatever had been claimed is released.
func (d *Dispatcher) Pop(ctx context.Context, req *queue.PopRequest) (*queue.Delivery, error) {
	if req.Wait <= 0 {
		return d.look(ctx, req)
	}
	if d.waiting.Add(1) > int64(d.cfg.MaxIntentions) {
		d.waiting.Add(-1)
		return nil, &queue.Error{
			Code: queue.CodeOverloaded, RetryAfter: overloadRetry,
			Message: "too many requests are waiting (dispatch.max_intentions); send the request again",
		}
	}
	defer d.waiting.Add(-1)
	in := newIntent(ctx, req)
	d.intents.add(in)
	defer d.intents.remove(in)
	if err := d.wait(in); err != nil {
		return nil, err
	}
	return &in.brought, nil
}

// newIntent returns an intent that came now.
func newIntent(ctx context.Context, req *queue.PopRequest) *intent {
	now := time.Now()
	req.WaitingSince = now
	early := min(time.Duration(float64(req.Wait)*answerEarly), answerEarlyMax)
	return &intent{
		ctx: ctx, req: req, since: now, deadline: now.Add(req.Wait - early), handed: make(chan struct{}),
		brought: queue.Delivery{Queue: req.Queue, Group: req.Group},
	}
}

// look pops once and gives back what nobody is there to receive.
func (d *Dispatcher) look(ctx context.Context, req *queue.PopRequest) (*queue.Delivery, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	delivery, err := d.store.Pop(ctx, req)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		d.Release(ctx, &delivery)
		return nil, err
	}
	return &delivery, nil
}

// Release gives the lease of a delivery back that could not be handed to its
// client. It blocks for one statement, bounded by the database timeout; a
// failure is logged, and the lease then expires.
func (d *Dispatcher) Release(ctx context.Context, delivery *queue.Delivery) {
	if delivery.LeaseID.IsZero() || len(delivery.Messages) == 0 {
		return
	}
	if err := d.store.Release(ctx, delivery.LeaseID); err != nil {
		d.log.Warn("releasing a lease failed; it will expire", zap.Stringer("lease_id", delivery.LeaseID),
			zap.String("queue", delivery.Queue), zap.Error(err))
	}
}
