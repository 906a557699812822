package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Sequence moves rows of the inbox into their partitions, in the given order. ids
// are the rows and items what they hold. One transaction removes the rows and
// stores the messages, so each row is stored once, whoever else tries and whatever
// breaks. It runs on conn alone, not with the pushes of others, so that it ends
// with the session of conn.
//
// A row that is refused for want of room stays where it is, and so does everything
// when there is an error. Errors are those of Push, and the SQLSTATE
// postgres.InboxTaken: a row is not there any more.
func (s *Store) Sequence(ctx context.Context, conn *pgxpool.Conn, ids []int64, items []queue.PushItem) ([]queue.SequenceResult, error) {
	ctx, cancel := s.pool.Bounded(ctx)
	defer cancel()
	for attempt := 0; ; attempt++ {
		results, p, err := s.sequence(ctx, conn, ids, items)
		if err == nil {
			return results, nil
		}
		// In another life the rows may be others; whoever looks again sees.
		if attempt < 3 && postgres.SQLState(err) == postgres.PartitionGone && !s.ended(ctx, p.opened[0].Epoch) {
			s.names.forget(p.opened)
			continue
		}
		if postgres.ConnectionLost(err) {
			// It may have been committed and not have come to its wake, or to telling of it.
			s.pool.ReportBrokenConnection()
		}
		return nil, postgres.Wrap(fmt.Errorf("sequencing %d rows: %w", len(ids), err))
	}
}

func (s *Store) sequence(ctx context.Context, conn *pgxpool.Conn, ids []int64, items []queue.PushItem) ([]queue.SequenceResult, *push, error) {
	results, p := make([]queue.SequenceResult, len(items)), newPush(items)
	if _, err := s.openLanes(ctx, p); err != nil {
		return nil, p, err
	}
	settle, err := s.admitSome(ctx, p, results)
	if err != nil {
		return nil, p, err
	}
	kept := make([]int, 0, len(items))
	for i := range results {
		if results[i].Refused == nil {
			kept = append(kept, i)
		}
	}
	if len(kept) < len(items) {
		if p, ids, err = s.keep(ctx, kept, ids, items); err != nil {
			settle(false)
			return nil, p, err
		}
	}
	if len(kept) > 0 {
		send := func(ctx context.Context, b *pgx.Batch, read func(pgx.BatchResults) error) error {
			return s.runBatch(ctx, conn, b, read)
		}
		err = s.store(ctx, newPushFlush([]*push{p}), send, ids)
	}
	settle(postgres.SQLState(err) == "")
	if err != nil {
		return nil, p, err
	}
	for at, i := range kept {
		results[i].Duplicate = p.results[at].Duplicate
	}
	return results, p, nil
}

// keep returns a push of some of the items, and their ids.
func (s *Store) keep(ctx context.Context, kept []int, ids []int64, items []queue.PushItem) (*push, []int64, error) {
	some, someIDs := make([]queue.PushItem, len(kept)), make([]int64, len(kept))
	for at, i := range kept {
		some[at], someIDs[at] = items[i], ids[i]
	}
	p := newPush(some)
	_, err := s.openLanes(ctx, p)
	return p, someIDs, err
}

// admitSome takes room for the items of p, whose partitions are open, and refuses
// those for which there is none, which are the last ones of a queue. settle is as
// with admit.
func (s *Store) admitSome(ctx context.Context, p *push, results []queue.SequenceResult) (settle func(stored bool), err error) {
	wanted, granted := map[int64]int64{}, map[int64]int64{}
	for i := range p.items {
		if lane := p.opened[p.lane[i]]; lane.Bounded && p.first[i] == i {
			wanted[lane.QueueKey]++
		}
	}
	settle = func(stored bool) {
		for key, n := range granted {
			s.rooms.of(key).settle(n, stored)
		}
	}
	for i := range p.items {
		lane := p.opened[p.lane[i]]
		if n, first := wanted[lane.QueueKey]; first {
			delete(wanted, lane.QueueKey)
			if granted[lane.QueueKey], err = s.takeSome(ctx, s.rooms.of(lane.QueueKey), lane.QueueKey, lane.Queue, n); err != nil {
				delete(granted, lane.QueueKey)
				settle(false)
				return nil, err
			}
		}
	}
	left := map[int64]int64{}
	for key, n := range granted {
		left[key] = n
	}
	for i := range p.items {
		lane := p.opened[p.lane[i]]
		switch {
		case !lane.Bounded:
		case p.first[i] != i:
			results[i].Refused = results[p.first[i]].Refused
		case left[lane.QueueKey] == 0:
			results[i].Refused = &queue.Error{Code: queue.CodeQueueFull, Message: fmt.Sprintf(
				"queue %q was full (maxSize): once consumers have caught up, or with a larger maxSize, try again with belfry.inbox_retry", lane.Queue)}
		default:
			left[lane.QueueKey]--
		}
	}
	return settle, nil
}
