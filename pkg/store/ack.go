package store

import (
	"context"
	"fmt"

	"github.com/belfry-mq/belfry/pkg/batch"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Ack applies acknowledgments in one transaction, which it may share with those
// of others, and returns their results in the same order, after its COMMIT. One
// that cannot be applied says why in its result and does not touch the others.
//
// A call that touches a cursor which a consumer in SQL holds waits for it by itself,
// for ackPatience. Errors: CodeUnavailable; then the acks may or may not have been
// applied, and sending them again is safe. CodeOverloaded: none was applied.
func (s *Store) Ack(ctx context.Context, items []queue.AckItem) ([]queue.AckResult, error) {
	ctx, cancel := s.pool.Bounded(ctx)
	defer cancel()
	if len(items) == 0 {
		return nil, nil
	}
	a := newAck(items)
	if err := s.ackPartitions(ctx, a); err != nil {
		return nil, postgres.Wrap(err)
	}
	if len(a.found) == 0 {
		return a.results, nil
	}
	lanes := make([]batch.LockStripe, len(a.found))
	for at, i := range a.found {
		lanes[at] = batch.LockStripeOf(a.partition[i].Key)
	}
	err := s.acks.Do(ctx, a, lanes, len(items))
	if held := heldIn(err); held != nil {
		err = s.outwait(ctx, &heldCall{ack: a, until: held.since.Add(ackPatience)}, held)
	}
	if err != nil {
		return nil, wrapBatched(fmt.Errorf("acknowledging %d messages: %w", len(items), err))
	}
	return a.results, nil
}

// ack is one call of Ack on its way.
type ack struct {
	items     []queue.AckItem
	results   []queue.AckResult
	partition []*queue.Partition
	// found are the items whose partition exists, and seqs, by item, the places of
	// those messages whose delivery is remembered; 0: to be looked up.
	found []int
	seqs  []int64
}

func newAck(items []queue.AckItem) *ack {
	n := len(items)
	return &ack{items: items, results: make([]queue.AckResult, n), partition: make([]*queue.Partition, n), seqs: make([]int64, n)}
}

// ackPartitions finds the partitions of a, and the places of what was delivered
// lately.
func (s *Store) ackPartitions(ctx context.Context, a *ack) error {
	ids := make([]queue.ID, len(a.items))
	var wanted []queue.ID
	seen := map[queue.ID]bool{}
	for i := range a.items {
		a.results[i].Error = errMessageNotFound
		id, err := queue.ParseID(a.items[i].PartitionID)
		if err != nil {
			continue
		}
		ids[i] = id
		if !seen[id] {
			seen[id] = true
			wanted = append(wanted, id)
		}
	}
	partitions, err := s.byIDs(ctx, wanted)
	if err != nil {
		return err
	}
	known := seeker{known: s.delivered}
	for i, id := range ids {
		if p := partitions[id]; p != nil {
			a.seqs[i] = known.seq(a.items[i].LeaseID, p.Key, a.items[i].TransactionID)
			a.partition[i] = p
			a.results[i].Queue, a.results[i].Partition = p.Queue, p.Name
			a.found = append(a.found, i)
		}
	}
	return nil
}
