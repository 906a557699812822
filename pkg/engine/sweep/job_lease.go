package sweep

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

const (
	// leaseDuration is how long a job is leased without a renewal.
	leaseDuration = 30 * time.Second
	// renewAfter is the age at which a lease is renewed.
	renewAfter = leaseDuration / 6
	// dueShare is the share of an interval after which the next run is due. It is below 1, so that
	// clocks that drift a little do not skip a run.
	dueShare = 0.9
)

var (
	sqlTake = sql.Query("engine/sweep/take")
	sqlHold = sql.Query("engine/sweep/hold")
	sqlDone = sql.Query("engine/sweep/done")
)

// errLeaseLost ends a run whose lease another instance has taken over.
var errLeaseLost = errors.New("another instance took the sweep over")

// jobLease is the right of this instance to run a job.
type jobLease struct {
	s       *Sweeper
	job     string
	id      queue.ID
	renewed time.Time
}

// acquire leases a job. It returns nil if the job is not due or another instance runs it.
func (s *Sweeper) acquire(ctx context.Context, j job) (*jobLease, error) {
	l := &jobLease{s: s, job: j.name, id: queue.NewID(), renewed: time.Now()}
	err := s.pool.ScanRow(ctx, []any{nil}, sqlTake, j.name, [16]byte(l.id), leaseDuration.Seconds(), dueShare*j.interval.Seconds())
	switch {
	case postgres.IsNoRows(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("acquiring the sweep %s: %w", j.name, err)
	}
	return l, nil
}

// renew prolongs the lease if it is older than renewAfter. It is called between two steps. It
// returns errLeaseLost if another instance has the job, and ctx.Err() if ctx has ended.
func (l *jobLease) renew(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if time.Since(l.renewed) < renewAfter {
		return nil
	}
	err := l.s.pool.ScanRow(ctx, []any{nil}, sqlHold, l.job, [16]byte(l.id), leaseDuration.Seconds())
	switch {
	case postgres.IsNoRows(err):
		return errLeaseLost
	case err != nil:
		return fmt.Errorf("renewing the lease of the sweep %s: %w", l.job, err)
	}
	l.renewed = time.Now()
	return nil
}

// release ends the lease. It does nothing if another instance has the job.
func (l *jobLease) release(ctx context.Context) error {
	ctx, cancel := l.s.pool.Bounded(ctx)
	defer cancel()
	if _, err := l.s.pool.Exec(ctx, sqlDone, l.job, [16]byte(l.id)); err != nil {
		return fmt.Errorf("releasing the sweep %s: %w", l.job, err)
	}
	return nil
}
