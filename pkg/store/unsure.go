package store

import (
	"context"
	"sync"

	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// maxUnsure is how many leases wait to be given back. One more is dropped, and
// ends by itself.
const maxUnsure = 1000

// unsure are leases that may have been taken by a claim whose answer nobody got.
// What they hold would wait for their end.
type unsure struct {
	mu     sync.Mutex
	leases []queue.ID
}

// add notes the leases of claims that were not answered.
func (u *unsure) add(claims ...*claim) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, c := range claims {
		if id := c.delivery.LeaseID; !id.IsZero() && len(u.leases) < maxUnsure {
			u.leases = append(u.leases, id)
		}
	}
}

func (u *unsure) take() []queue.ID {
	u.mu.Lock()
	defer u.mu.Unlock()
	leases := u.leases
	u.leases = nil
	return leases
}

// unanswered notes that nobody gets what claims may have taken; taken: they have.
func (s *Store) unanswered(err error, taken bool, claims ...*claim) {
	if taken || postgres.ConnectionLost(err) {
		s.unsure.add(claims...)
	}
	if taken {
		s.pool.SignalLoss() // no connection needs to have broken
	}
}

// giveBackUnsure gives back what nobody has. One that was not taken, or has ended,
// is none.
func (s *Store) giveBackUnsure(ctx context.Context) {
	for _, id := range s.unsure.take() {
		if ctx.Err() != nil {
			return
		}
		if err := s.Release(ctx, id); err != nil {
			s.log.Warn("a lease that nobody got could not be given back; it will expire", zap.Stringer("lease_id", id), zap.Error(err))
		}
	}
}
