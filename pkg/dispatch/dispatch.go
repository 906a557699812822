package dispatch

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/backoff"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Store is what a waiting request needs of the database.
type Store interface {
	// Pop looks once.
	Pop(ctx context.Context, req *queue.PopRequest) (queue.Delivery, error)
	// Release gives a lease back that was not used.
	Release(ctx context.Context, lease queue.ID) error
}

const (
	// answerEarly is the share of its timeout by which a waiting pop is
	// answered early, and answerEarlyMax the most that may be.
	answerEarly    = 0.05
	answerEarlyMax = 250 * time.Millisecond
	// overloadRetry is what a request beyond the bound is told to wait.
	overloadRetry = time.Second
)

// Dispatcher answers pops. It is safe for concurrent use.
type Dispatcher struct {
	store   Store
	log     *zap.Logger
	policy  backoff.Policy
	bound   int64
	waiting atomic.Int64

	stopOnce sync.Once
	stopping chan struct{}
}

// New returns a Dispatcher. Stop ends the waiting of its requests.
func New(store Store, cfg Config, log *zap.Logger) *Dispatcher {
	return &Dispatcher{
		store: store, log: log, bound: int64(cfg.MaxIntentions), stopping: make(chan struct{}),
		policy: backoff.Policy{
			Initial: cfg.PollInterval, Max: cfg.MaxPollInterval,
			Threshold: cfg.BackoffThreshold, Multiplier: cfg.BackoffMultiplier,
		},
	}
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
// Errors: those of Store.Pop, CodeOverloaded beyond the bound, and ctx.Err()
// when the client left; then whatever had been claimed is released.
func (d *Dispatcher) Pop(ctx context.Context, req *queue.PopRequest) (queue.Delivery, error) {
	started := time.Now()
	delivery, err := d.look(ctx, req)
	if err != nil || len(delivery.Messages) > 0 || req.Wait <= 0 {
		return delivery, err
	}
	if d.waiting.Add(1) > d.bound {
		d.waiting.Add(-1)
		return queue.Delivery{}, &queue.Error{
			Code: queue.CodeOverloaded, RetryAfter: overloadRetry,
			Message: "too many requests are waiting (dispatch.max_intentions); send the request again",
		}
	}
	defer d.waiting.Add(-1)
	early := min(time.Duration(float64(req.Wait)*answerEarly), answerEarlyMax)
	return d.wait(ctx, req, started.Add(req.Wait-early))
}

func (d *Dispatcher) wait(ctx context.Context, req *queue.PopRequest, deadline time.Time) (queue.Delivery, error) {
	empty := queue.Delivery{Queue: req.Queue, Group: req.Group}
	timer := time.NewTimer(0)
	defer timer.Stop()
	<-timer.C
	for empties := 1; ; empties++ {
		left := time.Until(deadline)
		if left <= 0 {
			return empty, nil
		}
		timer.Reset(min(left, d.policy.Delay(empties, rand.Float64())))
		select {
		case <-ctx.Done():
			return empty, ctx.Err()
		case <-d.stopping:
			return empty, nil
		case <-timer.C:
		}
		delivery, err := d.look(ctx, req)
		if err != nil || len(delivery.Messages) > 0 {
			return delivery, err
		}
	}
}

// look pops once and gives back what nobody is there to receive.
func (d *Dispatcher) look(ctx context.Context, req *queue.PopRequest) (queue.Delivery, error) {
	if err := ctx.Err(); err != nil {
		return queue.Delivery{}, err
	}
	delivery, err := d.store.Pop(ctx, req)
	if err == nil && ctx.Err() != nil {
		d.Release(ctx, &delivery)
		return queue.Delivery{}, ctx.Err()
	}
	return delivery, err
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
