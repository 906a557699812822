package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/belfry-mq/belfry/pkg/batch"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Push stores items in one transaction, which it may share with the pushes of
// others, and returns their results in the same order, after its COMMIT. Queues
// and partitions that do not exist are created.
//
// Errors: CodeInvalid when the database refuses a value, CodeUnavailable when
// it cannot be reached; then either everything or nothing was stored, and a
// repetition with the same transaction ids is safe. CodeOverloaded: nothing was
// stored. CodeQueueFull: nothing was stored, a queue has reached its maxSize.
func (s *Store) Push(ctx context.Context, items []queue.PushItem) ([]queue.PushResult, error) {
	ctx, cancel := s.pool.Bounded(ctx)
	defer cancel()
	items, err := s.dated(ctx, items)
	if err != nil {
		return nil, postgres.Wrap(err)
	}
	p := newPush(items)
	// A partition that was deleted since it was remembered is looked up again.
	for attempt := 0; ; attempt++ {
		err := s.push(ctx, p)
		if err == nil {
			return p.results, nil
		}
		if attempt == 3 || postgres.SQLState(err) != postgres.PartitionGone {
			return nil, wrapBatched(err)
		}
		s.names.forget(p.opened)
	}
}

// push is one call of Push on its way.
type push struct {
	items   []queue.PushItem
	results []queue.PushResult
	// ids are what new messages are stored as; a result has another one when its
	// item is a duplicate.
	ids []queue.ID
	// lanes are the distinct partitions; lane is the index into it by item, and
	// opened what they are in the database.
	lanes  []laneName
	lane   []int
	opened []*queue.Partition
	// first is, by item, the item of this call with the same (partition,
	// transaction id); an item that is its own first is stored.
	first []int
	// named: a transaction id came from the caller, so it may be stored already.
	named bool
	// tried: an attempt to store it was made, and may have been committed.
	tried bool
}

func newPush(items []queue.PushItem) *push {
	type dedupKey struct {
		lane          int
		transactionID string
	}
	p := &push{
		items: items, results: make([]queue.PushResult, len(items)), ids: make([]queue.ID, len(items)),
		lane: make([]int, len(items)), first: make([]int, len(items)),
	}
	laneIndex := make(map[laneName]int)
	seen := make(map[dedupKey]int)
	for i := range items {
		item := &items[i]
		name := laneName{item.Queue, item.Partition}
		lane, ok := laneIndex[name]
		if !ok {
			lane = len(p.lanes)
			laneIndex[name] = lane
			p.lanes = append(p.lanes, name)
		}
		p.lane[i], p.first[i] = lane, i
		p.ids[i] = queue.NewID()
		p.results[i].TransactionID = item.TransactionID
		if item.TransactionID == "" {
			p.results[i].TransactionID = queue.NewID().String()
			continue
		}
		p.named = true
		key := dedupKey{lane, item.TransactionID}
		if earlier, ok := seen[key]; ok {
			p.first[i] = earlier
		} else {
			seen[key] = i
		}
	}
	return p
}

// push opens the partitions and stores the items together with those of others.
func (s *Store) push(ctx context.Context, p *push) error {
	lanes, err := s.openLanes(ctx, p)
	if err != nil {
		return err
	}
	settle, err := s.admit(ctx, p.opened, p.counts())
	if err != nil {
		return err
	}
	err = s.pushes.Do(ctx, p, lanes, max(1, len(p.items)))
	settle(postgres.SQLState(err) == "") // without one it is stored, or may be
	if err != nil {
		return fmt.Errorf("pushing %d messages: %w", len(p.items), err)
	}
	return nil
}

// openLanes opens the partitions of p, creating what does not exist.
func (s *Store) openLanes(ctx context.Context, p *push) ([]batch.LockStripe, error) {
	opened, err := s.open(ctx, p.lanes)
	if err != nil {
		return nil, err
	}
	lanes := make([]batch.LockStripe, len(p.lanes))
	p.opened = make([]*queue.Partition, len(p.lanes))
	for i, name := range p.lanes {
		p.opened[i] = opened[name]
		lanes[i] = batch.LockStripeOf(p.opened[i].Key)
	}
	for i := range p.items {
		p.results[i].PartitionID = p.opened[p.lane[i]].ID
	}
	return lanes, nil
}

// counts says how many messages it brings, by lane.
func (p *push) counts() []int64 {
	counts := make([]int64, len(p.lanes))
	for i := range p.items {
		if p.first[i] == i {
			counts[p.lane[i]]++
		}
	}
	return counts
}

// dated turns the delays among items into instants of the database's clock.
func (s *Store) dated(ctx context.Context, items []queue.PushItem) ([]queue.PushItem, error) {
	if !slices.ContainsFunc(items, func(item queue.PushItem) bool { return item.Delay > 0 }) {
		return items, nil
	}
	var now time.Time
	if err := s.pool.QueryRow(ctx, sqlClock).Scan(&now); err != nil {
		return nil, fmt.Errorf("asking for the time: %w", err)
	}
	items = slices.Clone(items)
	for i := range items {
		if items[i].Delay > 0 {
			items[i].VisibleAt = now.Add(items[i].Delay)
		}
	}
	return items, nil
}
