package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Extend prolongs every live lease with the given id to now + d and returns the
// earliest expiry. Errors: CodeNotFound for an unknown lease, CodeLeaseGone for
// one that has expired, CodeUnavailable.
func (s *Store) Extend(ctx context.Context, lease queue.ID, d time.Duration) (time.Time, error) {
	ctx, cancel := s.pool.Bounded(ctx)
	defer cancel()
	var until pgtype.Timestamptz
	var known bool
	err := s.pool.QueryRow(ctx, sqlLeaseExtend, [16]byte(lease), int64(d/time.Second)).Scan(&until, &known)
	switch {
	case err != nil:
		return time.Time{}, postgres.Wrap(fmt.Errorf("extending lease %s: %w", lease, err))
	case until.Valid:
		return until.Time, nil
	case known:
		return time.Time{}, &queue.Error{Code: queue.CodeLeaseGone, Message: "Lease already expired"}
	default:
		return time.Time{}, &queue.Error{Code: queue.CodeNotFound, Message: "Lease not found"}
	}
}

// giveBack undoes a claim whose messages cannot be delivered.
func (s *Store) giveBack(ctx context.Context, c *claim) error {
	d, group, by := &c.delivery, c.target.Group, c.partitionOf
	if !d.LeaseID.IsZero() {
		return s.Release(ctx, d.LeaseID)
	}
	var partitions, first, last, n, redelivered []int64
	var heads []string
	var settled []string
	for i, m := range d.Messages {
		if what, ok := c.redelivered[by[i]]; ok {
			if i == 0 || by[i] != by[i-1] {
				redelivered, settled = append(redelivered, by[i]), append(settled, what)
			}
			continue
		}
		if i == 0 || by[i] != by[i-1] {
			partitions, first = append(partitions, by[i]), append(first, m.Seq)
			last, n = append(last, m.Seq), append(n, 0)
			heads = append(heads, c.heads[by[i]])
		}
		last[len(last)-1] = m.Seq
		n[len(n)-1]++
	}
	defer s.floors.forget(group)
	if err := s.takeBack(ctx, sqlUnconsume, group, partitions, first, last, n, heads); err != nil {
		return fmt.Errorf("taking back what group %d consumed in %d partitions: %w", group, len(partitions), err)
	}
	if len(redelivered) == 0 {
		return nil
	}
	if err := s.takeBack(ctx, sqlRedriveRestore, group, redelivered, settled); err != nil {
		return fmt.Errorf("taking back what was redelivered to group %d in %d partitions: %w", group, len(redelivered), err)
	}
	return nil
}

// takeBack runs a statement that makes cursors due again, and tells who waits for
// them: an instance that can open the messages may.
func (s *Store) takeBack(ctx context.Context, query string, args ...any) error {
	rows, err := s.pool.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	ready, _, err := readReady(rows)
	s.announce(ready)
	return err
}

// Release gives a lease back whose delivery did not reach its client; the
// messages are poppable again at once and no attempt is counted.
func (s *Store) Release(ctx context.Context, lease queue.ID) error {
	ctx, cancel := s.pool.Bounded(ctx)
	defer cancel()
	rows, err := s.pool.Query(ctx, sqlLeaseRelease, [16]byte(lease))
	if err != nil {
		return postgres.Wrap(fmt.Errorf("releasing lease %s: %w", lease, err))
	}
	ready, asleep, err := readReady(rows)
	if err != nil {
		return postgres.Wrap(fmt.Errorf("releasing lease %s: %w", lease, err))
	}
	s.announce(ready)
	s.wake(ctx, asleep)
	return nil
}
