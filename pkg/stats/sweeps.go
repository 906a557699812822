package stats

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/pkg/postgres"
)

// Swept is what sweeps did to a queue since it was made.
type Swept struct {
	// Retention, Completed and Evicted are messages deleted, by rule.
	Retention, Completed, Evicted int64
	// Unread are those of them that some group had not consumed, or that no group read.
	Unread int64
	// Expired counts, once for each group, messages that a sweep found expired. What
	// a pop found first is in Partition.Expired.
	Expired int64
	// Skipped counts, once for each group, messages that stayed for a lease or a dead
	// letter of another group, and that a sweep moved a group past unread.
	Skipped int64
}

// swept reads what sweeps did to a queue: nothing at first.
func (r *Reader) swept(ctx context.Context, key int64) (Swept, error) {
	found, err := collect(ctx, r, "stats/swept", func(row pgx.CollectableRow) (s Swept, err error) {
		err = row.Scan(&s.Retention, &s.Completed, &s.Evicted, &s.Unread, &s.Expired, &s.Skipped)
		return s, err
	}, key)
	if err != nil || len(found) == 0 {
		return Swept{}, err
	}
	return found[0], nil
}

// Sweep is one kind of sweep, over all instances.
type Sweep struct {
	Job string
	// Running: an instance is at it.
	Running bool
	// NextAt is when the next run is due.
	NextAt time.Time
}

// Sweeps returns the sweeps that have run, by job. Errors: CodeUnavailable.
func (r *Reader) Sweeps(ctx context.Context) ([]Sweep, error) {
	found, err := collect(ctx, r, "stats/sweeps", func(row pgx.CollectableRow) (s Sweep, err error) {
		err = row.Scan(&s.Job, &s.Running, &s.NextAt)
		return s, err
	})
	if err != nil {
		return nil, postgres.Wrap(fmt.Errorf("reading the state of the sweeps: %w", err))
	}
	return found, nil
}
