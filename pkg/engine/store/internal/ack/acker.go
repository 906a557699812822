// Package ack applies acknowledgments. It finds the messages, applies the acks with the SQL function
// belfry.apply_acks, and runs wakes.
//
// Only this function contains the rules of acks (sql/functions/ack/apply_acks.sql), because SQL
// consumers acknowledge in their own sessions. The tests compare the function with a model of the rules
// in Go. One call of the function is one transaction: it locks the cursors of many acks, judges the acks
// and writes.
//
// Many calls of Ack share a transaction (group commit). A cursor is contended if a SQL consumer holds it
// in an open transaction. A call with a contended cursor leaves the shared flush and waits separately
// (contended.go, wait.go). Package transaction uses the same functions for the acks of a transaction.
// docs/design.md lists the locks of an ack and their order. pkg/engine/store and internal/transaction
// import this package.
package ack

import (
	"context"
	"fmt"
	"slices"

	"github.com/belfry-mq/belfry/pkg/engine/batch"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/delivered"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/groupcommit"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/names"
	"github.com/belfry-mq/belfry/pkg/engine/store/internal/wake"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Deps are the dependencies of an Acker.
type Deps struct {
	Pool      *postgres.Pool
	Names     *names.Directory
	Waker     *wake.Waker
	Delivered *delivered.Cache
	// Instance is the name of this instance, which is stored with failed attempts.
	Instance string
}

// Acker applies acknowledgments. It is safe for concurrent use.
type Acker struct {
	Deps
	flushes   *batch.Manager[*Call]
	contended *contentionCache
	// waiting manages the calls that wait for contended cursors (newWaiting).
	waiting *batch.Manager[*contendedCall]
}

// New returns an Acker.
func New(deps Deps, cfg batch.Config, metrics *groupcommit.Metrics) *Acker {
	a := &Acker{Deps: deps, contended: newContentionCache()}
	a.flushes = groupcommit.NewManager(metrics, "ack", cfg, a.flush)
	a.waiting = a.newWaiting(cfg, metrics)
	return a
}

// Close refuses new acks, and waits until the accepted acks are answered or ctx ends.
func (a *Acker) Close(ctx context.Context) error { return a.flushes.Close(ctx) }

// CloseWaiting is like Close, for the calls that wait for contended cursors.
func (a *Acker) CloseWaiting(ctx context.Context) error { return a.waiting.Close(ctx) }

// Ack applies acknowledgments; see Store.Ack.
func (a *Acker) Ack(ctx context.Context, items []queue.AckItem) ([]queue.AckResult, error) {
	ctx, cancel := a.Pool.Bounded(ctx)
	defer cancel()
	if len(items) == 0 {
		return nil, nil
	}
	call := NewCall(items)
	if err := a.Resolve(ctx, call); err != nil {
		return nil, postgres.Wrap(err)
	}
	if len(call.Found) == 0 {
		return call.Results, nil
	}
	err := a.flushes.Do(ctx, call, call.Stripes(), len(items))
	if contended := ContendedIn(err); contended != nil {
		err = a.wait(ctx, &contendedCall{acks: call, until: contended.Since.Add(Patience)}, contended)
	}
	if err != nil {
		return nil, groupcommit.Wrap(fmt.Errorf("acknowledging %d messages: %w", len(items), err))
	}
	return call.Results, nil
}

// Call is one call of Ack.
type Call struct {
	Items   []queue.AckItem
	Results []queue.AckResult
	// Partitions are the partitions of the items. An element is nil if the partition does not
	// exist.
	Partitions []*queue.Partition
	// Found are the indexes of the items whose partition exists.
	Found []int
	// Seqs are the seqs of the messages, by item. A seq is 0 if it is not known yet, or if the
	// message does not exist.
	Seqs []int64
	// ofLog is set for an item if its lease delivered the message from the log, not as a redriven
	// message.
	ofLog []bool
	// owned is set if Items is a copy, which Resolve may change.
	owned bool
	// instance is the name of this instance.
	instance string
}

// NewCall returns a call for items.
func NewCall(items []queue.AckItem) *Call {
	n := len(items)
	return &Call{
		Items: items, Results: make([]queue.AckResult, n), Partitions: make([]*queue.Partition, n), Seqs: make([]int64, n), ofLog: make([]bool, n),
	}
}

// Clone returns a copy, which the caller may change.
func (call *Call) Clone() *Call {
	return &Call{
		Items: slices.Clone(call.Items), Results: slices.Clone(call.Results), Partitions: slices.Clone(call.Partitions),
		Found: slices.Clone(call.Found), Seqs: slices.Clone(call.Seqs), ofLog: slices.Clone(call.ofLog), instance: call.instance,
	}
}

// Add adds an ack of the message at seq, with the cursor and the lease of the ack at index. The partition of that
// ack must exist. The message may be missing.
func (call *Call) Add(index int, seq int64, status queue.AckStatus) {
	item := call.Items[index]
	item.Status, item.TransactionID = status, ""
	call.Found = append(call.Found, len(call.Items))
	call.Items, call.Results = append(call.Items, item), append(call.Results, call.Results[index])
	call.Partitions, call.Seqs = append(call.Partitions, call.Partitions[index]), append(call.Seqs, seq)
	call.ofLog = append(call.ofLog, call.ofLog[index])
}

// Resolve finds the partitions of call, and the seqs of recently delivered messages. It replaces characters in error
// texts and in names of consumers that the database cannot store.
func (a *Acker) Resolve(ctx context.Context, call *Call) error {
	call.instance = a.Instance
	for i := range call.Items {
		item := &call.Items[i]
		failure, consumer := a.Pool.Storable(ctx, item.Error), a.Pool.Storable(ctx, item.Consumer)
		if failure != item.Error || consumer != item.Consumer {
			if !call.owned {
				call.Items, call.owned = slices.Clone(call.Items), true
			}
			call.Items[i].Error, call.Items[i].Consumer = failure, consumer
		}
	}
	ids := make([]queue.ID, len(call.Items))
	var wanted []queue.ID
	seen := map[queue.ID]bool{}
	for i := range call.Items {
		call.Results[i].Error = ErrMessageNotFound
		id, err := queue.ParseID(call.Items[i].PartitionID)
		if err != nil {
			continue
		}
		ids[i] = id
		if !seen[id] {
			seen[id] = true
			wanted = append(wanted, id)
		}
	}
	partitions, err := a.Names.ByIDs(ctx, wanted)
	if err != nil {
		return err
	}
	finder := a.Delivered.NewFinder()
	for i, id := range ids {
		if p := partitions[id]; p != nil {
			call.Seqs[i] = finder.Seq(call.Items[i].LeaseID, p.Key, call.Items[i].TransactionID)
			call.ofLog[i] = call.Seqs[i] > 0 // the cache has only deliveries from the log
			call.Partitions[i] = p
			call.Results[i].Queue, call.Results[i].Partition = p.Queue, p.Name
			call.Found = append(call.Found, i)
		}
	}
	return nil
}

// Stripes returns the lock stripes of the call's partitions.
func (call *Call) Stripes() []batch.LockStripe {
	stripes := make([]batch.LockStripe, len(call.Found))
	for at, i := range call.Found {
		stripes[at] = batch.LockStripeOf(call.Partitions[i].Key)
	}
	return stripes
}

// cursorOf returns the cursor of an item.
func (call *Call) cursorOf(item int) Cursor {
	return Cursor{Partition: call.Partitions[item].Key, Group: call.Items[item].Group}
}

// cursors yields the cursors of the call. A cursor may occur several times.
func (call *Call) cursors(yield func(Cursor) bool) {
	for _, item := range call.Found {
		if !yield(call.cursorOf(item)) {
			return
		}
	}
}
