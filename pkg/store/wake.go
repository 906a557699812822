package store

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
)

const (
	// healPage is how many partitions one look of Heal covers.
	healPage = 5000
	// healGap is the least time between two heals, however often connections
	// break.
	healGap = time.Second
)

// wake runs the wake statement for partitions. Whoever calls it has committed
// already, so a failure is not the caller's: it is logged and left to the
// healer.
func (s *Store) wake(ctx context.Context, partitions []int64) {
	if len(partitions) == 0 {
		return
	}
	s.announce(s.wakeOn(ctx, s.pool, partitions))
}

// querier is a pool or a connection.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// wakeOn is wake on a connection, without the announcement.
func (s *Store) wakeOn(ctx context.Context, conn querier, partitions []int64) []queue.Ready {
	rows, err := conn.Query(ctx, sqlWake, partitions)
	var ready []queue.Ready
	if err == nil {
		ready, _, err = readReady(rows)
	}
	if err != nil {
		s.wakeFailed(len(partitions), err)
	}
	return ready
}

// readWake reads the wake that is next in results. The commit before it stands,
// whatever becomes of it.
func (s *Store) readWake(results pgx.BatchResults, partitions int) []queue.Ready {
	ready, err := readyResult(results, "waking")
	if err != nil {
		s.wakeFailed(partitions, err)
	}
	return ready
}

func (s *Store) wakeFailed(partitions int, err error) {
	s.log.Warn("a wake failed; it will be healed", zap.Int("partitions", partitions), zap.Error(err))
	s.pool.SignalLoss()
}

// Heal wakes every partition that owes a wake: one whose cursor says that
// nothing is left although something is. Only a crash between a commit and its
// wake leaves such a cursor. It goes page by page and never waits long, and returns
// how many partitions it woke: those where a wake changed something. One that is
// paused, or waits for the right instant already, is looked at as well.
func (s *Store) Heal(ctx context.Context) (healed int, err error) {
	for above := int64(0); ; {
		var partitions []int64
		pageCtx, cancel := s.pool.Bounded(ctx)
		err := s.pool.QueryRow(pageCtx, sqlHeal, above, int64(healPage)).Scan(&above, &partitions)
		woken := map[int64]struct{}{}
		if err == nil && len(partitions) > 0 {
			ready := s.wakeOn(pageCtx, s.pool, partitions)
			s.announce(ready)
			for _, r := range ready {
				woken[r.Partition] = struct{}{}
			}
		}
		cancel()
		switch {
		case postgres.IsNoRows(err):
			return healed, nil
		case err != nil:
			return healed, fmt.Errorf("healing partitions above %d: %w", above, postgres.Wrap(err))
		case ctx.Err() != nil:
			return healed, ctx.Err()
		}
		healed += len(woken)
	}
}

// Run heals once at the start and again after every lost connection, and settles
// the cursors it was told of, until ctx ends. A heal that fails is tried again.
// What was lost with a connection may have been a wake's answer: then the cursors
// are awake, no heal finds them, and nobody has heard of them. So a heal after a
// connection broke, or after another sequencer ended, is followed by a doubt. Leases that
// claims may have taken whose answer was lost are given back before it.
func (s *Store) Run(ctx context.Context) error {
	var settling sync.WaitGroup
	settling.Go(func() { s.settleTold(ctx) })
	defer settling.Wait()
	gap := time.NewTimer(0)
	defer gap.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-gap.C:
		}
		healed, err := s.Heal(ctx)
		s.heals.Add(1)
		s.healed.Add(int64(healed))
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			s.log.Warn("healing failed; it will be tried again", zap.Error(err))
			gap.Reset(healGap)
			continue
		case healed > 0:
			s.log.Info("woke partitions that a crash had left asleep", zap.Int("partitions", healed))
		}
		s.giveBackUnsure(ctx)
		if s.pool.TakeBroken() {
			s.resync("what was committed last may never have been told")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.pool.Losses():
			gap.Reset(healGap)
		}
	}
}

// Heals returns how often Run has healed, and how many partitions that woke.
func (s *Store) Heals() (passes, partitions int64) { return s.heals.Load(), s.healed.Load() }

// wakeGroup wakes every partition of a group whose cursors were just made.
func (s *Store) wakeGroup(ctx context.Context, group int64) error {
	for above := int64(0); ; {
		rows, err := s.pool.Query(ctx, sqlGroupPartitions, group, above, int64(healPage))
		if err != nil {
			return fmt.Errorf("listing the partitions of group %d: %w", group, err)
		}
		partitions, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		if err != nil {
			return fmt.Errorf("listing the partitions of group %d: %w", group, err)
		}
		if len(partitions) == 0 {
			return nil
		}
		s.wake(ctx, partitions)
		above = partitions[len(partitions)-1]
	}
}
