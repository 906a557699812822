package store

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// healInterval is the least time between two heals, however often connections break.
const healInterval = time.Second

// Heal wakes every partition that a crash between a commit and its wake left asleep, and returns how
// many that were. Errors: CodeUnavailable.
func (s *Store) Heal(ctx context.Context) (healed int, err error) { return s.waker.Heal(ctx) }

// Run heals at the start and after every lost connection, and settles the cursors that SQL consumers
// leave, until ctx ends. A failed heal is repeated.
//
// A lost connection may also have lost the answer of a wake: then the cursors are ready, no heal finds
// them, and they were never announced. So a heal after a broken connection, or after the end of
// another sequencer, is followed by a resync. Before it, Run releases the leases of claims whose
// answer was lost.
func (s *Store) Run(ctx context.Context) error {
	var settling sync.WaitGroup
	settling.Go(func() { s.waker.RunSettling(ctx) })
	defer settling.Wait()
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-next.C:
		}
		healed, err := s.waker.Heal(ctx)
		s.heals.Add(1)
		s.healed.Add(int64(healed))
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			s.log.Warn("Healing failed and will be repeated.", zap.Error(err))
			next.Reset(healInterval)
			continue
		case healed > 0:
			s.log.Info("Woke partitions that a crash had left asleep.", zap.Int("partitions", healed))
		}
		s.claims.ReleaseOrphans(ctx)
		if s.pool.TakeBroken() {
			s.waker.Resync("the last commits may not have been announced")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.pool.Losses():
			next.Reset(healInterval)
		}
	}
}

// Heals returns how often Run has healed, and how many partitions that woke.
func (s *Store) Heals() (passes, partitions int64) { return s.heals.Load(), s.healed.Load() }

// OnReady lowers the scan floors of the groups. Cursors that SQL consumers left are queued for
// settling. A SQL consumer whose transaction may have been long announces a cursor without the
// instant since when it is ready: then the floor of the group is dropped.
func (s *Store) OnReady(ready []queue.Ready, from events.Origin) {
	s.floors.Ready(ready...)
	if from != events.SQL {
		return
	}
	for _, r := range ready {
		if r.At.IsZero() {
			s.floors.Forget(r.Group)
		}
	}
	s.waker.SettleLater(ready)
}

// OnResync drops all scan floors.
func (s *Store) OnResync(string, events.Origin) { s.floors.ForgetAll() }

// OnLeaseChanged forgets the delivery of a lease.
func (s *Store) OnLeaseChanged(lease queue.ID) { s.delivered.Forget(lease) }
