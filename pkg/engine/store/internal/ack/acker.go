// Package ack applies acknowledgments: it finds their messages, applies the acks by the SQL function
// belfry.apply_acks, and wakes.
//
// The rules of acks are in that function alone (sql/functions/ack/apply_acks.sql), because SQL consumers
// acknowledge in their own sessions. The tests compare it with a model of the rules in Go. One call of
// the function is one transaction: it locks the cursors of many acks, judges the acks and writes.
//
// Many calls of Ack share a transaction (group commit). A call that touches a contended cursor, which
// a SQL consumer holds in an open transaction, leaves the shared flush and waits by itself
// (contended.go, wait.go). Package transaction applies the acks of a transaction with the same
// parts. Package store says what an ack locks and in which order. It is imported by pkg/engine/store and
// internal/transaction.
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

// Deps are what an Acker works with.
type Deps struct {
	Pool      *postgres.Pool
	Names     *names.Directory
	Waker     *wake.Waker
	Delivered *delivered.Cache
}

// Acker applies acknowledgments. It is safe for concurrent use.
type Acker struct {
	Deps
	flushes   *batch.Manager[*Call]
	contended *contentionCache
	// waiting has the calls that wait for contended cursors; see newWaiting.
	waiting *batch.Manager[*contendedCall]
}

// New returns an Acker.
func New(deps Deps, cfg batch.Config, metrics *groupcommit.Metrics) *Acker {
	a := &Acker{Deps: deps, contended: newContentionCache()}
	a.flushes = groupcommit.NewManager(metrics, "ack", cfg, a.flush)
	a.waiting = a.newWaiting(cfg, metrics)
	return a
}

// Close answers the acks that were accepted and refuses new ones, until ctx ends.
func (a *Acker) Close(ctx context.Context) error { return a.flushes.Close(ctx) }

// CloseWaiting is Close for the calls that wait for contended cursors.
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
	// Partitions are the partitions of the items; nil: the partition does not exist.
	Partitions []*queue.Partition
	// Found are the items whose partition exists.
	Found []int
	// Seqs are the positions of the messages, by item; 0: not known yet, or no such message.
	Seqs []int64
	// ofLog: the lease of the item delivered its message from the log.
	ofLog []bool
	// owned: Items are a copy.
	owned bool
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
		Found: slices.Clone(call.Found), Seqs: slices.Clone(call.Seqs), ofLog: slices.Clone(call.ofLog),
	}
}

// Add adds an ack of the message at seq, with the cursor and the lease of the ack at index like. The partition
// of that ack must exist. The message need not exist.
func (call *Call) Add(like int, seq int64, status queue.AckStatus) {
	item := call.Items[like]
	item.Status, item.TransactionID = status, ""
	call.Found = append(call.Found, len(call.Items))
	call.Items, call.Results = append(call.Items, item), append(call.Results, call.Results[like])
	call.Partitions, call.Seqs = append(call.Partitions, call.Partitions[like]), append(call.Seqs, seq)
	call.ofLog = append(call.ofLog, call.ofLog[like])
}

// Resolve finds the partitions of call, and the positions of recently delivered messages. It makes error texts of the
// call storable.
func (a *Acker) Resolve(ctx context.Context, call *Call) error {
	for i := range call.Items {
		if text := a.Pool.Storable(ctx, call.Items[i].Error); text != call.Items[i].Error {
			if !call.owned {
				call.Items, call.owned = slices.Clone(call.Items), true
			}
			call.Items[i].Error = text
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
			call.ofLog[i] = call.Seqs[i] > 0 // only deliveries of the log are remembered
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

// cursorOf names the cursor of an item.
func (call *Call) cursorOf(item int) Cursor {
	return Cursor{Partition: call.Partitions[item].Key, Group: call.Items[item].Group}
}

// cursors yields the cursors of the call; a cursor may repeat.
func (call *Call) cursors(yield func(Cursor) bool) {
	for _, item := range call.Found {
		if !yield(call.cursorOf(item)) {
			return
		}
	}
}
