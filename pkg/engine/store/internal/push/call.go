// Package push stores messages: Push stores calls in group commits, and Sequence stores rows of the
// inbox. Package transaction uses the same functions for the pushes of a transaction.
//
// A flush makes one round trip with two transactions. The first appends messages to partitions. The
// second wakes the partitions and makes claims for waiting requests (handoff). docs/design.md lists
// the locks of a push and their order. pkg/engine/store, internal/transaction and internal/warm
// import this package.
package push

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/belfry-mq/belfry/pkg/engine/batch"
	"github.com/belfry-mq/belfry/pkg/engine/seal"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/claim"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/groupcommit"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/names"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/quota"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/wake"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

var sqlDatabaseNow = sql.Query("engine/store/database_now")

// openAttempts is the maximum number of times that a push looks up partitions again because they
// were deleted.
const openAttempts = 3

// Deps are the dependencies of a Pusher.
type Deps struct {
	Pool   *postgres.Pool
	Names  *names.Directory
	Quotas *quota.Quotas
	Waker  *wake.Waker
	Claims *claim.Claimer
	// Handoffs returns the waiting requests for which a push to one partition makes claims, in
	// order.
	Handoffs func(queueName, partition string) []queue.Handoff
	// Sealer encrypts the payloads of queues with encryptionEnabled. Without a key, pushes to such
	// queues are refused, unless encryption.allow_plaintext is set.
	Sealer  *seal.Sealer
	Metrics *Metrics
}

// Pusher stores messages. It is safe for concurrent use.
type Pusher struct {
	Deps
	flushes *batch.Manager[*Call]
}

// New returns a Pusher.
func New(deps Deps, cfg batch.Config, metrics *groupcommit.Metrics) *Pusher {
	p := &Pusher{Deps: deps}
	p.flushes = groupcommit.NewManager(metrics, "push", cfg, p.flush)
	return p
}

// Close refuses new pushes, and waits until the accepted pushes are answered or ctx ends.
func (p *Pusher) Close(ctx context.Context) error { return p.flushes.Close(ctx) }

// Push stores items; see Store.Push.
func (p *Pusher) Push(ctx context.Context, items []queue.PushItem) ([]queue.PushResult, error) {
	ctx, cancel := p.Pool.Bounded(ctx)
	defer cancel()
	items, err := p.Prepare(ctx, items)
	if err != nil {
		return nil, postgres.Wrap(err)
	}
	call := NewCall(items)
	for attempt := 0; ; attempt++ {
		err := p.push(ctx, call)
		if err == nil {
			return call.Results, nil
		}
		if attempt == openAttempts || postgres.SQLState(err) != postgres.PartitionGone {
			return nil, groupcommit.Wrap(err)
		}
		p.Names.Forget(call.Opened)
	}
}

// push opens the partitions and stores the items in a flush with other calls.
func (p *Pusher) push(ctx context.Context, call *Call) error {
	stripes, err := p.Open(ctx, call)
	if err != nil {
		return err
	}
	if err := p.CheckKey(call); err != nil {
		return err
	}
	admission, err := p.Quotas.Admit(ctx, call.Demands())
	if err != nil {
		return err
	}
	err = p.flushes.Do(ctx, call, stripes, call.Size())
	admission.Settle(Outcome(err))
	if err != nil {
		return fmt.Errorf("pushing %d messages: %w", len(call.Items), err)
	}
	return nil
}

// Outcome reports whether the messages of a flush that ended with err are stored.
func Outcome(err error) quota.Outcome {
	switch {
	case err == nil:
		return quota.Stored
	case postgres.SQLState(err) != "", errors.Is(err, batch.ErrWithdrawn), errors.Is(err, batch.ErrClosed):
		return quota.NotStored
	default:
		return quota.Unknown
	}
}

// Call is one call of Push.
type Call struct {
	Items   []queue.PushItem
	Results []queue.PushResult
	// IDs are the ids of new messages. The result of a duplicate has another id.
	IDs []queue.ID
	// partitions are the names of the distinct partitions. partitionOf has, for each item, the index
	// of its partition. Opened has the ids of the partitions, in the order of partitions.
	partitions  []names.PartitionName
	partitionOf []int
	Opened      []*queue.Partition
	// tenants are the tenants that the items give to their partitions. Nil if no item has one.
	tenants map[names.PartitionName]string
	// First has, for each item, the index of the first item of this call with the same partition and
	// transaction id. Only these first items are stored.
	First []int
	// Named is set if the caller set a transaction id. Then the message may already be stored.
	Named bool
	// Tried is set when an attempt to store the call begins. Later, the call may already be stored.
	Tried bool
}

// itemBytes is the number of payload bytes that count as one more item of a batch. It bounds the
// bytes of a batch, so that large messages do not delay small messages for long.
const itemBytes = 16 << 10

// Size returns the size of the call in a batch, at least 1.
func (call *Call) Size() int {
	bytes := 0
	for i := range call.Items {
		bytes += len(call.Items[i].Payload)
	}
	return max(1, len(call.Items)+bytes/itemBytes)
}

// NewCall returns a call for items. It creates message ids, and transaction ids for items that have
// none.
func NewCall(items []queue.PushItem) *Call {
	type dedupKey struct {
		partition     int
		transactionID string
	}
	call := &Call{
		Items: items, Results: make([]queue.PushResult, len(items)), IDs: make([]queue.ID, len(items)),
		partitionOf: make([]int, len(items)), First: make([]int, len(items)),
	}
	index := make(map[names.PartitionName]int)
	seen := make(map[dedupKey]int)
	for i := range items {
		item := &items[i]
		name := names.PartitionName{Queue: item.Queue, Partition: item.Partition}
		partition, ok := index[name]
		if !ok {
			partition = len(call.partitions)
			index[name] = partition
			call.partitions = append(call.partitions, name)
		}
		if _, given := call.tenants[name]; item.Tenant != "" && !given {
			call.setTenant(name, item.Tenant)
		}
		call.partitionOf[i], call.First[i] = partition, i
		call.IDs[i] = queue.NewID()
		call.Results[i].TransactionID = item.TransactionID
		if item.TransactionID == "" {
			call.Results[i].TransactionID = queue.NewID().String()
			continue
		}
		call.Named = true
		key := dedupKey{partition, item.TransactionID}
		if earlier, ok := seen[key]; ok {
			call.First[i] = earlier
		} else {
			seen[key] = i
		}
	}
	return call
}

func (call *Call) setTenant(name names.PartitionName, tenant string) {
	if call.tenants == nil {
		call.tenants = map[names.PartitionName]string{}
	}
	call.tenants[name] = tenant
}

// Open opens the partitions of call, creates the missing ones, and returns their lock stripes.
func (p *Pusher) Open(ctx context.Context, call *Call) ([]batch.LockStripe, error) {
	opened, err := p.Names.Open(ctx, call.partitions, call.tenants)
	if err != nil {
		return nil, err
	}
	stripes := make([]batch.LockStripe, len(call.partitions))
	call.Opened = make([]*queue.Partition, len(call.partitions))
	for i, name := range call.partitions {
		call.Opened[i] = opened[name]
		stripes[i] = batch.LockStripeOf(call.Opened[i].Key)
	}
	for i := range call.Items {
		call.Results[i].PartitionID = call.Opened[call.partitionOf[i]].ID
	}
	return stripes, nil
}

// Partitions returns the names of the partitions.
func (call *Call) Partitions() []names.PartitionName { return call.partitions }

// Only returns a call with the items for whose partitions keep returns true. The items keep their ids. at has
// their indexes in the original call.
func (call *Call) Only(keep func(names.PartitionName) bool) (some *Call, at []int) {
	var items []queue.PushItem
	for i := range call.Items {
		if keep(call.partitions[call.partitionOf[i]]) {
			items, at = append(items, call.Items[i]), append(at, i)
		}
	}
	some = NewCall(items)
	for to, from := range at {
		some.IDs[to] = call.IDs[from]
	}
	return some, at
}

// Demands returns the number of messages that the call adds to each queue with a maxSize. The
// partitions must be open.
func (call *Call) Demands() []quota.Demand {
	var demands []quota.Demand
	for i := range call.Items {
		partition := call.Opened[call.partitionOf[i]]
		if !partition.Bounded || call.First[i] != i {
			continue
		}
		at := slices.IndexFunc(demands, func(d quota.Demand) bool { return d.QueueKey == partition.QueueKey })
		if at < 0 {
			at = len(demands)
			demands = append(demands, quota.Demand{QueueKey: partition.QueueKey, Queue: partition.Queue})
		}
		demands[at].Messages++
	}
	return demands
}

// Prepare converts the delays of items to times of the database clock. It replaces characters in their subjects that
// the database cannot store.
func (p *Pusher) Prepare(ctx context.Context, items []queue.PushItem) ([]queue.PushItem, error) {
	for i := range items {
		if text := p.Pool.Storable(ctx, items[i].ProducerSub); text != items[i].ProducerSub {
			items = slices.Clone(items)
			for at := range items {
				items[at].ProducerSub = p.Pool.Storable(ctx, items[at].ProducerSub)
			}
			break
		}
	}
	if !slices.ContainsFunc(items, func(item queue.PushItem) bool { return item.Delay > 0 }) {
		return items, nil
	}
	var now time.Time
	if err := p.Pool.QueryRow(ctx, sqlDatabaseNow).Scan(&now); err != nil {
		return nil, fmt.Errorf("reading the database's clock: %w", err)
	}
	items = slices.Clone(items)
	for i := range items {
		if items[i].Delay > 0 {
			items[i].VisibleAt = now.Add(items[i].Delay)
		}
	}
	return items, nil
}

// Metrics count refused messages.
type Metrics struct{ refusedWithoutKey prometheus.Counter }

// NewMetrics registers the metrics with reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	return &Metrics{refusedWithoutKey: promauto.With(reg).NewCounter(prometheus.CounterOpts{
		Name: "belfry_messages_refused_without_key_total",
		Help: "Messages refused because their queue has encryptionEnabled and this server has no encryption.key.",
	})}
}

// CheckKey refuses a call with a message that must be encrypted if the server has no key. The
// partitions of the call must be open. The check runs before the flush, so that such a call does not
// split a flush with calls of other clients. QueueAppend would fail for such a message.
//
// The option may have changed after the partitions were cached. So CheckKey drops them, and the
// next call reads the option again.
func (p *Pusher) CheckKey(call *Call) error {
	for _, partition := range call.Opened {
		if refused := p.refuseWithoutKey(partition); refused != nil {
			p.Metrics.refusedWithoutKey.Add(float64(len(call.Items)))
			p.Names.Forget(call.Opened)
			return refused
		}
	}
	return nil
}

// refuseWithoutKey returns an error if messages of the partition must be encrypted and the server
// has no key.
func (p *Pusher) refuseWithoutKey(partition *queue.Partition) *queue.Error {
	if !partition.Sealed || p.Sealer.HasKey() || p.Sealer.AllowsPlaintext() {
		return nil
	}
	return queue.Invalidf("queue %q has encryptionEnabled, and this server cannot encrypt: set encryption.key,"+
		" or encryption.allow_plaintext to store its messages unencrypted", partition.Queue)
}

// refuseSealed refuses items that must be encrypted if the server has no key. The quota counts these
// items until its next measurement. This is harmless, because all items of their queues are refused.
func (p *Pusher) refuseSealed(call *Call, results []queue.SequenceResult) {
	for i := range call.Items {
		if refused := p.refuseWithoutKey(call.Opened[call.partitionOf[i]]); refused != nil {
			p.Metrics.refusedWithoutKey.Inc()
			results[i].Refused = refused
		}
	}
}
