package store

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// maxTold is how many cursors wait to be settled. One more is dropped: it stays
	// due, which costs who pops a look, and is settled by that.
	maxTold = 10_000
	// toldPage is how many are settled in one transaction.
	toldPage = 200
	// toldPace is how often they are settled at most. Each commit of a consumer in SQL
	// is told to every instance, and one that is settled later costs looks alone.
	toldPace = 25 * time.Millisecond
)

// told are cursors that a consumer in SQL left: they are due, perhaps with nothing
// behind them, because its transaction can be followed by no wake.
type told struct {
	mu      sync.Mutex
	cursors map[queue.Target]struct{}
	// signal receives when there may be some; one signal stands for many.
	signal chan struct{}
}

func newTold() told {
	return told{cursors: map[queue.Target]struct{}{}, signal: make(chan struct{}, 1)}
}

// add queues cursors that SQL consumers left; Run settles them. It does not block.
func (t *told) add(ready []queue.Ready) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range ready {
		if r.Partition != 0 && len(t.cursors) < maxTold {
			t.cursors[queue.Target{Group: r.Group, Partition: r.Partition}] = struct{}{}
		}
	}
	select {
	case t.signal <- struct{}{}:
	default: // a signal is pending and covers these
	}
}

// take returns up to n of them.
func (t *told) take(n int) (partitions, groups []int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for cursor := range t.cursors {
		if len(partitions) == n {
			break
		}
		partitions, groups = append(partitions, cursor.Partition), append(groups, cursor.Group)
		delete(t.cursors, cursor)
	}
	return partitions, groups
}

// settleTold settles what it is told until ctx ends: at once, and then whatever has
// come within each toldPace.
func (s *Store) settleTold(ctx context.Context) {
	pace := time.NewTimer(0)
	defer pace.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pace.C:
		}
		select {
		case <-ctx.Done():
			return
		case <-s.told.signal:
		}
		pace.Reset(toldPace)
		for full := true; full && ctx.Err() == nil; {
			partitions, groups := s.told.take(toldPage)
			full = len(partitions) == toldPage
			if len(partitions) > 0 {
				s.settlePage(ctx, partitions, groups)
			}
		}
	}
}

// settlePage settles cursors and wakes their partitions: what was pushed while
// they were put to sleep is found by that (I3).
func (s *Store) settlePage(ctx context.Context, partitions, groups []int64) {
	ctx, cancel := s.pool.Bounded(ctx)
	defer cancel()
	var settled int64
	err := s.pool.QueryRow(ctx, sqlSettleTold, partitions, groups).Scan(&settled)
	if err != nil {
		s.log.Warn("cursors that consumers in SQL left could not be settled; the next pop does it",
			zap.Int("cursors", len(partitions)), zap.Error(err))
	}
	if err != nil || settled > 0 {
		s.wake(ctx, partitions)
	}
}

// Settle settles cursors of a group at once, and not those that somebody holds. It
// blocks for one or two statements, each bounded by the database timeout. A failure
// is logged.
func (s *Store) Settle(ctx context.Context, group int64, partitions []int64) {
	s.settlePage(ctx, partitions, slices.Repeat([]int64{group}, len(partitions)))
}

// Tell notifies the consumers in SQL that listen on channel, by which they asked to
// be told (belfry.await). It blocks for one statement, bounded by the database timeout.
//
// Errors: CodeUnavailable; they may or may not have been told.
func (s *Store) Tell(ctx context.Context, channel string) error {
	ctx, cancel := s.pool.Bounded(ctx)
	defer cancel()
	if _, err := s.pool.Exec(ctx, sqlTell, channel); err != nil {
		return fmt.Errorf("telling on channel %s: %w", channel, postgres.Wrap(err))
	}
	return nil
}
