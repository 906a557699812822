package stats

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/sql"
)

var (
	sqlSwept  = sql.Query("stats/swept")
	sqlSweeps = sql.Query("stats/sweeps")
)

// SweepTotals counts the messages of a queue that sweeps handled since its creation.
type SweepTotals struct {
	// Retention, Completed and Evicted count deleted messages, by rule.
	Retention, Completed, Evicted int64
	// Unread counts the deleted messages that some group had not consumed, or that no
	// group read.
	Unread int64
	// Expired counts, once for each group, messages that a sweep found expired.
	// Partition.Expired counts the messages that a pop found expired.
	Expired int64
	// Skipped counts, once for each group, messages that a sweep skipped for the group
	// unread and kept for a lease or a dead letter of another group.
	Skipped int64
}

// swept returns the totals of a queue; zero when no sweep has changed it.
func (r *Reader) swept(ctx context.Context, key int64) (SweepTotals, error) {
	found, err := postgres.Collect(ctx, r.pool, sqlSwept, pgx.RowToStructByPos[SweepTotals], key)
	if err != nil || len(found) == 0 {
		return SweepTotals{}, err
	}
	return found[0], nil
}

// Sweep is the state of one kind of sweep, over all instances.
type Sweep struct {
	Job string
	// Running: an instance runs the sweep now.
	Running bool
	// NextAt is the instant at which the next run is due.
	NextAt time.Time
}

// Sweeps returns the sweeps that have run, by job. Errors: CodeUnavailable.
func (r *Reader) Sweeps(ctx context.Context) ([]Sweep, error) {
	found, err := postgres.Collect(ctx, r.pool, sqlSweeps, pgx.RowToStructByPos[Sweep])
	return found, postgres.Wrapf(err, "reading the state of the sweeps")
}
