// Package claim takes messages for consumers: it claims due partitions, reads their messages, and
// releases or extends leases.
//
// # One claim
//
// A call is one run of the SQL function belfry.claim (sql/functions/claim/claim.sql). Every claim of
// the server has the same four steps, on each route to a claim (package store):
//
//	newCall    the request, its target, a lease id unless it is autoAck
//	queue      adds the statement to a pipeline, with the scan floors of the group
//	read       reads the typed rows (result.go)
//	finish     after the commit: wakes, settles, names the partitions, remembers the delivery
//
// # Leases of unknown outcome
//
// All tries of a call have the same lease id. If the answer of a claim is lost, the lease is
// released by its id, so its partitions are ready again. A repetition of the claim releases the
// lease first. ReleaseOrphans releases the lease of a claim that is not repeated.
//
// pkg/engine/store and internal/push import this package.
package claim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/engine/batch"
	"github.com/belfry-mq/belfry/pkg/engine/seal"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/delivered"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/groupcommit"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/names"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/pipeline"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/scanfloor"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/wake"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Deps are the dependencies of a Claimer.
type Deps struct {
	Pool *postgres.Pool
	// Urgent has the connections of Preflight and Round. If it is nil, they use Pool.
	Urgent    *pgxpool.Pool
	Names     *names.Directory
	Waker     *wake.Waker
	Floors    *scanfloor.Floors
	Delivered *delivered.Cache
	// Sealer decrypts payloads. If it is nil, no payload can be decrypted.
	Sealer *seal.Sealer
	// MaxBytes bounds the bytes of the messages of one claim. A claim may always deliver one
	// message.
	MaxBytes int64
	Metrics  *Metrics
	Log      *zap.Logger
}

// Metrics count messages and partitions that claims did not deliver.
type Metrics struct{ expired, givenUp, skipped, undecrypted, unreadable, noMemory prometheus.Counter }

// NewMetrics registers the metrics with reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	counter := func(name, help string) prometheus.Counter {
		return promauto.With(reg).NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	return &Metrics{
		expired:     counter("belfry_messages_expired_total", "Messages skipped because of expireAfterSeconds, counted once per group."),
		givenUp:     counter("belfry_messages_given_up_total", "Messages that became dead letters because of maxDeliveries, counted once per group."),
		skipped:     counter("belfry_messages_skipped_total", "Messages skipped because of maxDeliveries and onExhausted skip, counted once per group."),
		undecrypted: counter("belfry_pops_unopened_total", "Deliveries given back because a payload could not be opened with the keys of this instance."),
		noMemory:    counter("belfry_pops_without_memory_total", "Pops refused because http.max_inflight_bytes had no room for their messages."),
		unreadable:  counter("belfry_claims_unreadable_total", "Partitions postponed because Postgres cannot read a message in them."),
	}
}

// Claimer makes claims. It is safe for concurrent use.
type Claimer struct {
	Deps
	// leased and consuming commit the pops of many callers together. The commit of a lease does not
	// wait for the disk, and the commit of an autoAck pop does. So leased and consuming share no
	// transaction.
	leased, consuming *batch.Manager[*claimCall]
	// maxSize is batch.max_size.
	maxSize int
	sizes   *messageSizes
	// orphans are leases of claims whose answer was lost. Such a lease may exist.
	orphans chan queue.ID
	// urgent sends a pipeline on a connection of Deps.Urgent.
	urgent pipeline.SendFunc
	// passedOverLogged is the time of the last log line about a skipped queue (logPassedOver), in Unix
	// seconds.
	passedOverLogged atomic.Int64
}

// New returns a Claimer.
func New(deps Deps, cfg batch.Config, metrics *groupcommit.Metrics) *Claimer {
	c := &Claimer{Deps: deps, maxSize: cfg.MaxSize, orphans: make(chan queue.ID, maxOrphans), sizes: newMessageSizes(), urgent: pipeline.Confirmed(deps.Pool.Pool)}
	if deps.Urgent != nil {
		c.urgent = pipeline.Confirmed(deps.Urgent)
	}
	c.leased = groupcommit.NewManager(metrics, "claim", cfg, c.flush)
	c.consuming = groupcommit.NewManager(metrics, "take", cfg, c.flush)
	return c
}

// Close refuses new pops, and waits until the accepted pops are answered or ctx ends.
func (c *Claimer) Close(ctx context.Context) error {
	return errors.Join(c.leased.Close(ctx), c.consuming.Close(ctx))
}

// claim makes one claim together with the claims of other callers. If the request names no partition,
// claim skips partitions with messages that Postgres cannot read.
func (c *Claimer) claim(ctx context.Context, req *queue.PopRequest, target queue.Target) (*claimCall, error) {
	call, err := c.together(ctx, req, target)
	if target.Partition == 0 && postgres.Unreadable(err) {
		return c.separately(ctx, req, target, err)
	}
	return call, err
}

// together makes one claim together with the claims of other callers. If a message of the partition cannot be
// read or decrypted, together claims only the messages before this message.
func (c *Claimer) together(ctx context.Context, req *queue.PopRequest, target queue.Target) (*claimCall, error) {
	call := newCall(req, target)
	if !c.reserve(call) {
		return nil, call.refusal()
	}
	manager := c.leased
	if req.AutoAck {
		manager = c.consuming
	}
	// Claims of any partition of a group skip locked cursors, so they need no stripes. Claims of
	// one partition would wait for each other.
	var stripes []batch.LockStripe
	if target.Partition != 0 {
		stripes = []batch.LockStripe{batch.LockStripeOf(target.Partition)}
	}
	// A pop with a large batch may find nothing, so no pop counts as oversized.
	size := min(max(1, req.Batch), c.maxSize)
	if err := manager.Do(ctx, call, stripes, size); err != nil {
		c.orphan(err, false, call)
		if target.Partition != 0 && postgres.Unreadable(err) {
			if req.Batch > 1 {
				return c.together(ctx, withBatch(req, req.Batch/2), target)
			}
			err = c.postpone(ctx, call, err)
		}
		return nil, err
	}
	if err := c.finish(ctx, []*claimCall{call}); err != nil {
		c.orphan(err, true, call)
		return nil, err
	}
	if err := call.refusal(); err != nil {
		return nil, err
	}
	if n := call.decryptedBefore; n > 0 {
		target.Partition = call.undecryptedPartition
		return c.together(ctx, withBatch(req, n), target)
	}
	return call, call.delivery.Undeliverable
}

// withBatch returns the request with another batch size.
func withBatch(req *queue.PopRequest, batch int) *queue.PopRequest {
	fewer := *req
	fewer.Batch = batch
	return &fewer
}

// flush makes the claims of many callers in one transaction.
func (c *Claimer) flush(ctx context.Context, calls []*claimCall) ([]error, error) {
	ctx, cancel := c.Pool.Bounded(ctx)
	defer cancel()
	return nil, explainUnreadable(c.send(ctx, pipeline.Confirmed(c.Pool.Pool), calls))
}

// Round makes the claims of a round of the dispatcher; see Store.Claim.
func (c *Claimer) Round(ctx context.Context, assignments []queue.Assignment) ([]queue.Delivery, error) {
	ctx, cancel := c.Pool.Bounded(ctx)
	defer cancel()
	deliveries := make([]queue.Delivery, len(assignments))
	var calls []*claimCall
	var at []int // the index of the assignment of each call
	for i, a := range assignments {
		if call := newCall(a.Request, a.Target); c.reserve(call) {
			calls, at = append(calls, call), append(at, i)
		} else {
			deliveries[i] = call.delivery
			deliveries[i].Contested = true
		}
	}
	if len(calls) == 0 {
		return deliveries, nil
	}
	err := explainUnreadable(c.send(ctx, c.urgent, calls))
	taken := err == nil
	if taken {
		err = c.finish(ctx, calls)
	}
	if err != nil {
		c.orphan(err, taken, calls...)
		if !taken && len(calls) == 1 && postgres.Unreadable(err) {
			switch call := calls[0]; {
			case call.target.Partition != 0 && call.req.Batch > 1:
				fewer := slices.Clone(assignments)
				fewer[at[0]].Request = withBatch(call.req, call.req.Batch/2)
				return c.Round(ctx, fewer)
			case call.target.Partition != 0:
				err = c.postpone(ctx, call, err)
			default:
				deliveries[at[0]] = queue.Delivery{Queue: call.req.Queue, Group: call.req.Group, Contested: true}
				return deliveries, nil
			}
		}
		return nil, postgres.Wrap(fmt.Errorf("claiming %d partitions: %w", len(assignments), err))
	}
	for i, call := range calls {
		deliveries[at[i]] = call.delivery
	}
	return deliveries, nil
}

// finish runs after the commit of claims. It wakes partitions, settles drained cursors, names the
// partitions, and gives back messages that cannot be delivered.
func (c *Claimer) finish(ctx context.Context, calls []*claimCall) error {
	c.Waker.Wake(ctx, c.noteAll(calls))
	return c.complete(ctx, calls)
}

// noteAll calls note for each claim, and returns the partitions that need a wake.
func (c *Claimer) noteAll(calls []*claimCall) (needWake []int64) {
	for _, call := range calls {
		needWake = append(needWake, c.note(call)...)
		c.Waker.Announce(call.released)
	}
	return needWake
}

// complete does the work of finish except the wake.
func (c *Claimer) complete(ctx context.Context, calls []*claimCall) error {
	for _, call := range calls {
		for _, p := range call.partitions {
			if p.outcome != outcomeDrained {
				continue
			}
			if err := c.Waker.SettleOne(ctx, p.id, call.target.Group); err != nil {
				return err
			}
			call.settled = true
		}
		if call.memory.full {
			if call.sent {
				c.Metrics.noMemory.Inc()
				c.giveBackUndelivered(ctx, call)
			}
			continue
		}
		if err := c.namePartitions(ctx, call); err != nil {
			return err
		}
		if call.delivery.Undeliverable != nil {
			c.giveBackUndecrypted(ctx, call)
		}
	}
	for _, call := range calls { // the rights are checked after the last step that blocks
		if len(call.delivery.Messages) == 0 {
			continue
		}
		if call.ended = call.req.Valid(); call.ended != nil {
			c.giveBackUndelivered(ctx, call)
			continue
		}
		c.Delivered.Remember(&call.delivery, call.logPartitionOf())
	}
	return nil
}

// note updates the scan floors and the metrics after a claim, and returns the partitions that need
// a wake.
func (c *Claimer) note(call *claimCall) (needWake []int64) {
	group, now := call.target.Group, call.delivery.DatabaseNow
	if !call.seen.Now.IsZero() && !call.delivery.Gone {
		c.Floors.Learn(group, call.scan, call.seen)
	}
	for _, p := range call.partitions {
		c.Metrics.expired.Add(float64(p.expired))
		c.Metrics.givenUp.Add(float64(p.givenUp))
		c.Metrics.skipped.Add(float64(p.skipped))
		if p.needsWake.Bool {
			needWake = append(needWake, p.id)
		}
		switch {
		case p.readyAt.IsZero():
		case p.delivered() && !call.req.AutoAck:
			c.Floors.Leased(group, p.readyAt)
		default:
			c.Floors.Ready(queue.Ready{Group: group, Partition: p.id, In: p.readyAt.Sub(now), At: p.readyAt})
		}
	}
	return needWake
}

// giveBackUndelivered undoes a claim with a refusal (claimCall.refusal).
func (c *Claimer) giveBackUndelivered(ctx context.Context, call *claimCall) {
	if err := c.giveBack(ctx, call); err != nil {
		c.Log.Warn("a claim whose messages could not be delivered was not undone",
			zap.String("queue", call.req.Queue), zap.NamedError("reason", call.refusal()), zap.Error(err))
	}
	call.delivery.Messages, call.delivery.Contested = nil, true
}

// namePartitions sets the Partition of each delivered message, and decrypts the payloads.
func (c *Claimer) namePartitions(ctx context.Context, call *claimCall) error {
	keys, d := call.partitionOf, &call.delivery
	if len(keys) == 0 {
		return nil
	}
	distinct := make([]int64, 0, d.Partitions)
	for i, key := range keys {
		if i == 0 || key != keys[i-1] {
			distinct = append(distinct, key)
		}
	}
	named, err := c.Names.ByKeys(ctx, call.target.Epoch, distinct)
	if err != nil {
		return err
	}
	if c.decrypt(call, named); call.delivery.Undeliverable != nil {
		return nil
	}
	kept, partitionOf := d.Messages[:0], keys[:0]
	for i := range d.Messages {
		// A partition without a name was deleted during the claim.
		if p := named[keys[i]]; p != nil {
			d.Messages[i].Partition = p
			kept, partitionOf = append(kept, d.Messages[i]), append(partitionOf, keys[i])
		}
	}
	d.Messages, call.partitionOf = kept, partitionOf
	return nil
}

// partitionArg returns the partition parameter of a claim, which is NULL for any partition.
func partitionArg(target queue.Target) pgtype.Int8 {
	return pgtype.Int8{Int64: target.Partition, Valid: target.Partition != 0}
}
